//! The secrets that a server could repeat.

use alloc::borrow::Cow;
use alloc::vec::Vec;

use super::Secret;
use super::attempt::Attempt;
use super::authorization::Authorization;
use super::core::Core;
use super::hide::hide;
use super::options::Flow;
use super::record::Record;

fn of_record(record: &Record) -> impl Iterator<Item = &Secret> {
    [Some(&record.access_token), record.refresh_token.as_ref(), record.client.secret.as_ref()].into_iter().flatten()
}

impl Attempt {
    /// The secrets that an attempt sends.
    pub(super) fn secrets<'a>(&'a self, core: &'a Core) -> Vec<&'a Secret> {
        let options = &core.options;
        let mut secrets: Vec<&Secret> = options.registered.iter().filter_map(|client| client.secret.as_ref()).collect();
        match &options.flow {
            Flow::User | Flow::ClientCredentials => {}
            Flow::JwtBearer(assertion) => secrets.push(assertion),
            Flow::Enterprise(provider) => {
                secrets.push(&provider.id_token);
                secrets.extend(&provider.client_secret);
            }
        }
        secrets
            .extend(self.code.iter().chain(&self.verifier).chain(&self.grant).chain(&self.assertion).chain(&self.used));
        secrets.extend(self.client.iter().filter_map(|client| client.secret.as_ref()));
        if let Some(held) = &self.held {
            secrets.extend(held.client.secret.iter().chain(&held.refresh_token));
        }
        let former = self.task.as_ref().and_then(|task| task.former.as_deref());
        secrets.extend(former.into_iter().flat_map(of_record));
        secrets
    }
}

impl Authorization {
    /// A text of the MCP server without the secrets that it could know.
    pub(crate) fn without_secrets<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let record = self.credentials.record.iter().flat_map(of_record);
        let mut secrets = record.chain(&self.credentials.used).peekable();
        if secrets.peek().is_none() {
            return Cow::Borrowed(text);
        }
        Cow::Owned(hide(text, secrets).into_string())
    }
}
