//! The commands of a client as values, and the methods by which they are given.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::vec::Vec;
use serde_json::value::RawValue;

use super::{LogLevel, Request, RequestId, ServerRequestId};
use crate::jsonrpc::ErrorObject;
use crate::protocol::{Family, Root};

/// A command of a client, as a value: [`Client::apply`](crate::Client::apply) applies it. Each has a method of
/// [`Client`](crate::Client), which describes it.
#[derive(Clone, Debug)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(tag = "type", content = "value", rename_all = "snake_case")
)]
#[non_exhaustive]
pub enum Command {
    /// [`Client::open`](crate::Client::open).
    Open,
    /// [`Client::close`](crate::Client::close).
    Close,
    /// [`Client::request`](crate::Client::request).
    Request(Request),
    /// [`Client::cancel`](crate::Client::cancel), or [`Client::cancel_with_reason`](crate::Client::cancel_with_reason) if
    /// there is a reason.
    Cancel {
        /// The request.
        request: RequestId,
        /// The reason.
        #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
        reason: Option<Box<str>>,
    },
    /// [`Client::notify`](crate::Client::notify).
    Notify {
        /// The method.
        method: Cow<'static, str>,
        /// The parameters, raw.
        #[cfg_attr(
            feature = "serde",
            serde(
                default,
                skip_serializing_if = "Option::is_none",
                deserialize_with = "crate::form::optional_raw::deserialize"
            )
        )]
        params: Option<Box<RawValue>>,
    },
    /// [`Client::provide`](crate::Client::provide).
    Provide {
        /// The request.
        request: RequestId,
        /// Key and response of each input.
        responses: Vec<(Box<str>, Box<RawValue>)>,
    },
    /// [`Client::decline`](crate::Client::decline).
    Decline {
        /// The request.
        request: RequestId,
    },
    /// [`Client::respond`](crate::Client::respond).
    Respond {
        /// The server request.
        request: ServerRequestId,
        /// The response.
        #[cfg_attr(feature = "serde", serde(with = "crate::form::result"))]
        response: Result<Box<RawValue>, ErrorObject>,
    },
    /// [`Client::authorized`](crate::Client::authorized).
    Authorized,
    /// [`Client::subscribe`](crate::Client::subscribe).
    Subscribe {
        /// The resource.
        uri: Box<str>,
    },
    /// [`Client::unsubscribe`](crate::Client::unsubscribe).
    Unsubscribe {
        /// The resource.
        uri: Box<str>,
    },
    /// [`Client::set_log_level`](crate::Client::set_log_level).
    SetLogLevel {
        /// The level.
        level: LogLevel,
    },
    /// [`Client::set_roots`](crate::Client::set_roots).
    SetRoots {
        /// The roots.
        roots: Vec<Root>,
    },
    /// [`Client::refresh`](crate::Client::refresh).
    Refresh {
        /// The family.
        family: Family,
    },
}

/// The methods of a type whose `apply` takes the commands of a client, or of a session of a hub, and refuses them with this
/// error.
macro_rules! command_methods {
    (client, $error:ty) => {
        /// Opens the connection. While the client waits for the next attempt or is parked, it reconnects now.
        ///
        /// # Errors
        /// [`CommandError::AlreadyOpen`](crate::CommandError::AlreadyOpen), [`CommandError::Closed`](crate::CommandError::Closed).
        pub fn open(&mut self, now: crate::Time) -> Result<(), $error> {
            self.apply(now, crate::Command::Open).map(drop)
        }

        /// Closes the client: open requests end at once, then the transport is shut down step by step, and
        /// [`Event::Closed`](crate::Event::Closed) is the last event.
        ///
        /// # Errors
        /// [`CommandError::Closed`](crate::CommandError::Closed) if the client is closed already, or is being closed.
        pub fn close(&mut self, now: crate::Time) -> Result<(), $error> {
            self.apply(now, crate::Command::Close).map(drop)
        }

        /// Reports that the embedder can authorize requests now. Requests that wait for authorization are sent again, and a
        /// client that is parked because of it reconnects.
        ///
        /// # Errors
        /// [`CommandError::Closed`](crate::CommandError::Closed).
        pub fn authorized(&mut self, now: crate::Time) -> Result<(), $error> {
            self.apply(now, crate::Command::Authorized).map(drop)
        }

        crate::client::command_methods!(session, $error);
    };
    (session, $error:ty) => {
        /// Cancels a request; it ends with [`Outcome::Cancelled`](crate::Outcome::Cancelled).
        ///
        /// # Errors
        /// [`CommandError::UnknownRequest`](crate::CommandError::UnknownRequest).
        pub fn cancel(&mut self, now: crate::Time, request: crate::RequestId) -> Result<(), $error> {
            self.apply(now, crate::Command::Cancel { request, reason: None }).map(drop)
        }

        /// As [`cancel`](Self::cancel), with a reason that the server is told, for its logs (specification 2026-07-28,
        /// "Cancellation"), in 1,024 characters.
        ///
        /// # Errors
        /// As of [`cancel`](Self::cancel).
        pub fn cancel_with_reason(
            &mut self,
            now: crate::Time,
            request: crate::RequestId,
            reason: &str,
        ) -> Result<(), $error> {
            self.apply(now, crate::Command::Cancel { request, reason: Some(reason.into()) }).map(drop)
        }

        /// Sends a notification.
        ///
        /// # Errors
        /// [`CommandError::Closed`](crate::CommandError::Closed), [`CommandError::NotReady`](crate::CommandError::NotReady),
        /// [`CommandError::ParamsNotObject`](crate::CommandError::ParamsNotObject),
        /// [`CommandError::Reserved`](crate::CommandError::Reserved) for a notification that the engine sends itself,
        /// [`CommandError::TooManyRequests`](crate::CommandError::TooManyRequests) if too many actions wait to be polled.
        pub fn notify(
            &mut self,
            now: crate::Time,
            method: impl Into<alloc::borrow::Cow<'static, str>>,
            params: Option<&crate::RawValue>,
        ) -> Result<(), $error> {
            let params = params.map(alloc::borrow::ToOwned::to_owned);
            self.apply(now, crate::Command::Notify { method: method.into(), params }).map(drop)
        }

        /// Provides the input that the server requires for a request: for each key of
        /// [`Event::InputRequired`](crate::Event::InputRequired) the result of the key's method. Missing fields of an
        /// accepted form get the server's defaults (SEP-1034).
        ///
        /// # Errors
        /// [`CommandError::UnknownRequest`](crate::CommandError::UnknownRequest) if the request does not wait for input,
        /// [`CommandError::ResultNotObject`](crate::CommandError::ResultNotObject) if a result is not a JSON object,
        /// [`CommandError::MissingInput`](crate::CommandError::MissingInput),
        /// [`CommandError::UnknownInput`](crate::CommandError::UnknownInput) or
        /// [`CommandError::DuplicateInput`](crate::CommandError::DuplicateInput) if the keys are not those that are required.
        pub fn provide<'a>(
            &mut self,
            now: crate::Time,
            request: crate::RequestId,
            responses: impl IntoIterator<Item = (&'a str, &'a crate::RawValue)>,
        ) -> Result<(), $error> {
            let responses =
                responses.into_iter().map(|(key, response)| (key.into(), alloc::borrow::ToOwned::to_owned(response)));
            self.apply(now, crate::Command::Provide { request, responses: responses.collect() }).map(drop)
        }

        /// Declines required input: the request ends with [`Outcome::InputRequired`](crate::Outcome::InputRequired). Or
        /// declines authorization: the request ends with the server's refusal.
        ///
        /// # Errors
        /// [`CommandError::UnknownRequest`](crate::CommandError::UnknownRequest) if the request waits for neither.
        pub fn decline(&mut self, now: crate::Time, request: crate::RequestId) -> Result<(), $error> {
            self.apply(now, crate::Command::Decline { request }).map(drop)
        }

        /// Responds to a server request, with the result of its method or with an error. Missing fields of an accepted form
        /// get the server's defaults (SEP-1034).
        ///
        /// # Errors
        /// [`CommandError::UnknownServerRequest`](crate::CommandError::UnknownServerRequest) if the server request is over,
        /// [`CommandError::ResultNotObject`](crate::CommandError::ResultNotObject) if the result is not a JSON object.
        pub fn respond(
            &mut self,
            now: crate::Time,
            request: crate::ServerRequestId,
            response: Result<&crate::RawValue, crate::jsonrpc::ErrorObject>,
        ) -> Result<(), $error> {
            let response = response.map(alloc::borrow::ToOwned::to_owned);
            self.apply(now, crate::Command::Respond { request, response }).map(drop)
        }

        /// Subscribes to changes of a resource, on this connection and on later ones. They are reported as
        /// [`Event::ResourceUpdated`](crate::Event::ResourceUpdated), and the result of the subscription on each connection
        /// as [`Event::Subscription`](crate::Event::Subscription) (specification 2025-11-25, "Resources", Subscriptions;
        /// 2026-07-28, "Subscriptions"). A second subscription to a resource has no effect, except that a refused one is
        /// requested again.
        ///
        /// # Errors
        /// [`CommandError::Closed`](crate::CommandError::Closed),
        /// [`CommandError::NotAdvertised`](crate::CommandError::NotAdvertised) if the server does not declare
        /// `resources.subscribe`, [`CommandError::TooManySubscriptions`](crate::CommandError::TooManySubscriptions),
        /// [`CommandError::TooManyRequests`](crate::CommandError::TooManyRequests) if too many actions wait to be polled.
        pub fn subscribe(&mut self, now: crate::Time, uri: &str) -> Result<(), $error> {
            self.apply(now, crate::Command::Subscribe { uri: uri.into() }).map(drop)
        }

        /// Ends a subscription to a resource.
        ///
        /// # Errors
        /// [`CommandError::UnknownSubscription`](crate::CommandError::UnknownSubscription).
        pub fn unsubscribe(&mut self, now: crate::Time, uri: &str) -> Result<(), $error> {
            self.apply(now, crate::Command::Unsubscribe { uri: uri.into() }).map(drop)
        }

        /// Sets the minimum severity of the server's log messages, on this connection and on later ones (specification
        /// 2025-11-25, "Logging"; in 2026-07-28 it is part of each request, and deprecated).
        ///
        /// # Errors
        /// [`CommandError::Closed`](crate::CommandError::Closed),
        /// [`CommandError::NotAdvertised`](crate::CommandError::NotAdvertised) if the server does not declare `logging`,
        /// [`CommandError::TooManyRequests`](crate::CommandError::TooManyRequests) if too many actions wait to be polled.
        pub fn set_log_level(&mut self, now: crate::Time, level: crate::LogLevel) -> Result<(), $error> {
            self.apply(now, crate::Command::SetLogLevel { level }).map(drop)
        }

        /// Replaces the client's roots, on this connection and on later ones. A legacy server is told, and may request them
        /// (specification 2025-11-25, "Roots", Root List Changes); a modern one gets them when it next requires them. Roots
        /// are deprecated in 2026-07-28.
        ///
        /// # Errors
        /// [`CommandError::Closed`](crate::CommandError::Closed), [`CommandError::NotDeclared`](crate::CommandError::NotDeclared)
        /// if [`ClientCapabilities::roots`](crate::ClientCapabilities::roots) is `None`,
        /// [`CommandError::TooManyRequests`](crate::CommandError::TooManyRequests) if too many actions wait to be polled.
        pub fn set_roots(
            &mut self,
            now: crate::Time,
            roots: alloc::vec::Vec<crate::protocol::Root>,
        ) -> Result<(), $error> {
            self.apply(now, crate::Command::SetRoots { roots }).map(drop)
        }

        /// Requests a family's list again, even if it is fresh. The outcome is reported as
        /// [`Event::Refreshed`](crate::Event::Refreshed).
        ///
        /// # Errors
        /// [`CommandError::Closed`](crate::CommandError::Closed), [`CommandError::NotReady`](crate::CommandError::NotReady),
        /// [`CommandError::NotAdvertised`](crate::CommandError::NotAdvertised) if the server does not have the family.
        pub fn refresh(&mut self, now: crate::Time, family: crate::Family) -> Result<(), $error> {
            self.apply(now, crate::Command::Refresh { family }).map(drop)
        }
    };
}

pub(crate) use command_methods;
