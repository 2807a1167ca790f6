use super::{ApplyError, Input, JournalBinding};
use crate::{Client, RequestId, Time};

impl<B: JournalBinding> Client<B> {
    /// Applies an input or a command. Returns the id of a request that was accepted.
    ///
    /// # Errors
    /// [`ApplyError::Command`] if a command is refused, [`ApplyError::OtherBinding`] for an input of another binding.
    pub fn apply(&mut self, now: Time, input: Input) -> Result<Option<RequestId>, ApplyError> {
        match input {
            Input::Open => self.open(now)?,
            Input::Close => self.close(now)?,
            Input::Request(request) => return Ok(Some(self.request(now, request)?)),
            Input::Cancel { request, reason: None } => self.cancel(now, request)?,
            Input::Cancel { request, reason: Some(reason) } => self.cancel_with_reason(now, request, &reason)?,
            Input::Notify { method, params } => self.notify(now, method.into_string(), params.as_deref())?,
            Input::Provide { request, responses } => {
                self.provide(now, request, responses.iter().map(|(key, response)| (&**key, &**response)))?;
            }
            Input::Decline { request } => self.decline(now, request)?,
            Input::Respond { request, response: Ok(result) } => self.respond(now, request, Ok(&result))?,
            Input::Respond { request, response: Err(error) } => self.respond(now, request, Err(error))?,
            Input::Authorized => self.authorized(now)?,
            Input::Subscribe { uri } => self.subscribe(now, &uri)?,
            Input::Unsubscribe { uri } => self.unsubscribe(now, &uri)?,
            Input::SetLogLevel { level } => self.set_log_level(now, level)?,
            Input::SetRoots { roots } => self.set_roots(now, roots)?,
            Input::Refresh { family } => self.refresh(now, family)?,
            Input::Timeout => self.handle_timeout(now),
            Input::Message { .. } | Input::Bytes { .. } | Input::Transport { .. } => {
                return B::handle(self, now, &input).map(|()| None);
            }
            #[cfg(feature = "http")]
            Input::Head { .. } | Input::Body { .. } | Input::End { .. } | Input::Failure { .. } => {
                return B::handle(self, now, &input).map(|()| None);
            }
        }
        Ok(None)
    }
}
