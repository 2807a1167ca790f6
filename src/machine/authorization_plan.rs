//! The decisions of an attempt to obtain a token: what comes of metadata, which client is used, what follows, what
//! the redirect means, and what a failed token request does.

use super::alphabet;
use super::authorization::Input;

alphabet! {
    /// What came from a place of metadata.
    Answer {
        /// Metadata that passes the checks.
        Accepted,
        /// No metadata: another status, another body, or no response.
        Unusable,
        /// Metadata that fails a check, or a document that is too large.
        Refused,
        /// A redirect within the origin.
        Moved,
        /// A redirect to another origin, or one too many.
        MovedAway,
    }
}

alphabet! {
    /// Where else metadata may be.
    Rest {
        /// There is another place.
        Further,
        /// There is none, and the conventions of 2025-03-26 apply.
        Conventions,
        /// There is none.
        Nothing,
    }
}

alphabet! {
    /// What the places of the metadata that were asked so far did.
    #[derive(Default)]
    Places {
        /// Each of them responded.
        #[default]
        Responded,
        /// One of them did not.
        Unreached,
    }
}

/// What the response from a place of metadata means. `places`: this one included.
pub(crate) const fn metadata(answer: Answer, rest: Rest, places: Places) -> Input {
    match answer {
        Answer::Accepted => Input::Found,
        Answer::Unusable => match rest {
            Rest::Further => Input::Next,
            Rest::Conventions => match places {
                Places::Responded => Input::Assume,
                // Whether there is metadata is not known: the conventions might send a client's secret elsewhere.
                Places::Unreached => Input::Fail,
            },
            Rest::Nothing => Input::Fail,
        },
        Answer::Refused | Answer::MovedAway => Input::Fail,
        Answer::Moved => Input::Follow,
    }
}

alphabet! {
    /// The registrations that the embedder configured.
    Configured {
        /// None.
        Nothing,
        /// One for this authorization server.
        Fits,
        /// Only for other authorization servers.
        Elsewhere,
    }
}

alphabet! {
    /// The client that the credentials were issued to.
    Held {
        /// None.
        Nothing,
        /// One of this authorization server.
        Valid,
        /// One whose secret expired, or which the authorization server does not know any more.
        Expired,
        /// One of another authorization server.
        Elsewhere,
    }
}

alphabet! {
    /// The way of registration that the authorization server offers, and the embedder too.
    Offer {
        /// None.
        Nothing,
        /// A client ID metadata document.
        Document,
        /// Dynamic registration.
        Dynamic,
    }
}

alphabet! {
    /// The client that is used.
    Client {
        /// The one that the embedder configured.
        Configured,
        /// The one that the credentials were issued to.
        Held,
        /// The URL of the client ID metadata document.
        Document,
        /// One that has to be registered.
        Dynamic,
        /// None: the embedder configured one for another authorization server.
        Elsewhere,
        /// None: there is no way to register one.
        Nothing,
    }
}

/// Which client is used (specification 2026-07-28, "Client Registration").
pub(crate) const fn client(configured: Configured, held: Held, offer: Offer) -> Client {
    match configured {
        Configured::Fits => Client::Configured,
        Configured::Elsewhere => Client::Elsewhere,
        Configured::Nothing => match held {
            Held::Valid => Client::Held,
            Held::Nothing | Held::Expired | Held::Elsewhere => match offer {
                Offer::Nothing => Client::Nothing,
                Offer::Document => Client::Document,
                Offer::Dynamic => Client::Dynamic,
            },
        },
    }
}

alphabet! {
    /// What the attempt is for.
    Goal {
        /// A refresh.
        Refresh,
        /// A grant of a user.
        User,
        /// A grant without a user.
        Direct,
    }
}

alphabet! {
    /// Whether there is what the token request presents: the code of a user, or the grant of an identity provider.
    Code {
        /// Not yet.
        Missing,
        /// No, and the embedder does not allow to ask the user.
        Withheld,
        /// Yes, or it presents nothing.
        Held,
    }
}

alphabet! {
    /// Whether the credentials that are to be refreshed belong to this authorization server and client.
    Owner {
        /// Yes, or there is nothing to refresh.
        Same,
        /// No.
        Other,
    }
}

alphabet! {
    /// What the token request has to be signed with.
    Proof {
        /// Nothing: the client authenticates with a secret or not at all.
        Plain,
        /// An assertion of the client, a proof of possession, or both.
        Signature,
    }
}

alphabet! {
    /// Whose browser shows the URL at which the user authorizes.
    Browser {
        /// That of this authorization.
        Own,
        /// One that several authorizations share.
        Shared,
    }
}

/// What follows when the metadata is known.
pub(crate) const fn plan(
    goal: Goal,
    client: Client,
    owner: Owner,
    code: Code,
    proof: Proof,
    browser: Browser,
) -> Input {
    match goal {
        Goal::Refresh => match owner {
            Owner::Other => Input::Refused,
            Owner::Same => match client {
                Client::Configured | Client::Held => request(proof),
                // The refresh token belongs to the client that is gone.
                Client::Document | Client::Dynamic => Input::Refused,
                Client::Elsewhere | Client::Nothing => Input::Fail,
            },
        },
        Goal::User => match client {
            Client::Dynamic => match code {
                Code::Withheld => Input::Fail,
                Code::Missing | Code::Held => Input::Register,
            },
            Client::Configured | Client::Held | Client::Document => match code {
                Code::Withheld => Input::Fail,
                Code::Missing => match browser {
                    Browser::Own => Input::Browse,
                    Browser::Shared => Input::Queue,
                },
                Code::Held => request(proof),
            },
            Client::Elsewhere | Client::Nothing => Input::Fail,
        },
        Goal::Direct => match client {
            Client::Configured | Client::Held | Client::Document => match code {
                Code::Missing | Code::Withheld => Input::Exchange,
                Code::Held => request(proof),
            },
            Client::Dynamic | Client::Elsewhere | Client::Nothing => Input::Fail,
        },
    }
}

const fn request(proof: Proof) -> Input {
    match proof {
        Proof::Plain => Input::Request,
        Proof::Signature => Input::Sign,
    }
}

alphabet! {
    /// `iss` in the response to the authorization request.
    Iss {
        /// It is missing.
        Missing,
        /// It is the issuer.
        Same,
        /// It is another one.
        Other,
    }
}

alphabet! {
    /// `authorization_response_iss_parameter_supported` in the metadata.
    Advertised {
        /// It is `true`.
        Yes,
        /// It is not.
        No,
    }
}

alphabet! {
    /// What the response to the authorization request has.
    Redirect {
        /// A code.
        Code,
        /// An error, or nothing.
        Error,
    }
}

/// What the response to the authorization request means (RFC 9207, section 2.4). With a wrong `iss`, its error is not
/// shown.
pub(crate) const fn redirect(advertised: Advertised, iss: Iss, redirect: Redirect) -> Input {
    match iss {
        Iss::Other => Input::Fail,
        Iss::Missing => match advertised {
            Advertised::Yes => Input::Fail,
            Advertised::No => outcome(redirect),
        },
        Iss::Same => outcome(redirect),
    }
}

const fn outcome(redirect: Redirect) -> Input {
    match redirect {
        Redirect::Code => Input::Code,
        Redirect::Error => Input::Fail,
    }
}

alphabet! {
    /// Why a token request failed.
    Failure {
        /// It broke, timed out, or was answered with 429, 5xx or a page for people.
        Transient,
        /// `invalid_grant`.
        InvalidGrant,
        /// `invalid_client`.
        InvalidClient,
        /// `use_dpop_nonce`, for the first time in this attempt: it was not processed.
        Nonce,
        /// Any other error, or a response that is no token.
        Other,
    }
}

alphabet! {
    /// How the client was registered.
    Registration {
        /// Dynamically, and for the first time in this attempt.
        Dynamic,
        /// Otherwise.
        Fixed,
    }
}

alphabet! {
    /// How often the token request was sent.
    Tries {
        /// Less often than allowed.
        Left,
        /// As often as allowed.
        Spent,
    }
}

/// What follows from a failed token request. A code is sent once, since it may have been used.
pub(crate) const fn failed(goal: Goal, failure: Failure, registration: Registration, tries: Tries) -> Input {
    match failure {
        Failure::Transient => match goal {
            Goal::User => Input::Fail,
            Goal::Refresh | Goal::Direct => match tries {
                Tries::Left => Input::Retry,
                Tries::Spent => Input::Fail,
            },
        },
        Failure::InvalidGrant => match goal {
            Goal::Refresh => Input::Refused,
            Goal::User | Goal::Direct => Input::Fail,
        },
        Failure::InvalidClient => match goal {
            Goal::Refresh | Goal::User => match registration {
                Registration::Dynamic => Input::Unregistered,
                Registration::Fixed => Input::Fail,
            },
            Goal::Direct => Input::Fail,
        },
        Failure::Nonce => Input::Renew,
        Failure::Other => Input::Fail,
    }
}

/// The decisions, recorded with the feature `rows`.
#[cfg(feature = "oauth")]
pub(crate) mod take {
    use super::{
        Advertised, Answer, Browser, Client, Code, Configured, Failure, Goal, Held, Input, Iss, Offer, Owner, Places,
        Proof, Redirect, Registration, Rest, Tries,
    };

    pub(crate) fn metadata(answer: Answer, rest: Rest, places: Places) -> Input {
        #[cfg(feature = "rows")]
        crate::machine::rows::taken("authorization::metadata", &[&answer, &rest, &places]);
        super::metadata(answer, rest, places)
    }

    pub(crate) fn client(configured: Configured, held: Held, offer: Offer) -> Client {
        #[cfg(feature = "rows")]
        crate::machine::rows::taken("authorization::client", &[&configured, &held, &offer]);
        super::client(configured, held, offer)
    }

    pub(crate) fn plan(goal: Goal, client: Client, owner: Owner, code: Code, proof: Proof, browser: Browser) -> Input {
        #[cfg(feature = "rows")]
        crate::machine::rows::taken("authorization::plan", &[&goal, &client, &owner, &code, &proof, &browser]);
        super::plan(goal, client, owner, code, proof, browser)
    }

    pub(crate) fn redirect(advertised: Advertised, iss: Iss, redirect: Redirect) -> Input {
        #[cfg(feature = "rows")]
        crate::machine::rows::taken("authorization::redirect", &[&advertised, &iss, &redirect]);
        super::redirect(advertised, iss, redirect)
    }

    pub(crate) fn failed(goal: Goal, failure: Failure, registration: Registration, tries: Tries) -> Input {
        #[cfg(feature = "rows")]
        crate::machine::rows::taken("authorization::failed", &[&goal, &failure, &registration, &tries]);
        super::failed(goal, failure, registration, tries)
    }
}
