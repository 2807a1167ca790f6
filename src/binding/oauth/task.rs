//! What an attempt is given, and what comes of it.

use alloc::boxed::Box;

use super::Secret;
use super::error::OAuthError;
use super::record::{ClientRecord, Record};
use crate::machine::authorization_plan::Goal;
use crate::machine::{credential_need, once};

/// What a challenge of the server says.
#[derive(Clone, Debug, Default)]
pub(super) struct Hint {
    pub(super) metadata: Option<Box<str>>,
    pub(super) scopes: Option<Box<str>>,
}

/// What an attempt is to obtain.
#[derive(Clone, Debug)]
pub(super) struct Task {
    pub(super) goal: Goal,
    pub(super) hint: Hint,
    /// Who needs the token.
    pub(super) need: credential_need::State,
    /// Whether the client was registered anew, because the authorization server did not know it any more.
    pub(super) registration: once::State,
    /// The scopes that are requested besides.
    pub(super) scopes: Box<str>,
    /// The credentials so far.
    pub(super) held: Option<Held>,
    /// The record that an issued token belongs to.
    pub(super) former: Option<Box<Record>>,
}

/// A client, and the authorization server that it belongs to.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) issuer: Box<str>,
    pub(super) client: ClientRecord,
    pub(super) refresh_token: Option<Secret>,
}

/// How an attempt ended.
#[derive(Debug)]
pub(super) enum End {
    /// With a token. The record has no generation yet.
    Issued(Box<Record>),
    /// The refresh token cannot be used any more. Names whether the client has to be registered anew.
    Refused { registration: once::State },
    /// With an error.
    Failed(OAuthError),
}
