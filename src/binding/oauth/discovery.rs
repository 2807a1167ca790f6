//! Reads the metadata of the server and of its authorization server.

use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;

use http::StatusCode;

use super::attempt::Attempt;
use super::core::{Core, Exchange};
use super::error::excerpt;
use super::metadata::{Resource, Server, Unfit};
use super::place::Place;
use crate::machine::authorization::{Input, State};
use crate::machine::authorization_plan::{self, Answer, Places, Rest, take};

/// Redirects that are followed for one place.
const REDIRECTS: u8 = 3;

/// A document that was read.
enum Document {
    Resource(Resource),
    Server(Box<Server>),
}

impl Attempt {
    /// Finds the places of protected-resource metadata: the one that the challenge names, and the well-known ones.
    pub(super) fn find_resource(&mut self, core: &Core, named: Option<&str>) {
        if let Some(named) = named {
            let checked = Place::parse(named).ok_or("is no http(s) URL, or is too long");
            let checked = checked.and_then(|place| place.check(core.zone).map(|()| place));
            let shown = excerpt(&crate::address::shown(named));
            self.places
                .push_back(checked.map_err(|why| format!("`resource_metadata` is `{shown}`, which {why}").into()));
        }
        for text in core.server.resource_metadata() {
            let place = Place::parse(&text).filter(|place| !self.places.contains(&Ok(place.clone())));
            self.places.extend(place.map(Ok));
        }
    }

    pub(super) fn find_servers(&mut self) {
        self.issuers = self.resource.iter().flat_map(|resource| resource.issuers.iter().cloned()).collect();
        self.next_server();
    }

    /// The conventions of 2025-03-26: the MCP server's origin is the authorization server.
    pub(super) fn assume_origin(&mut self, core: &Core) {
        let resource = core.server.text().into();
        self.resource = Some(Resource { resource, issuers: Vec::new(), scopes: None, requires_proofs: false });
        self.issuers = Place::parse(core.server.origin()).into_iter().collect();
        self.next_server();
    }

    /// Finds the places of the next authorization server's metadata.
    fn next_server(&mut self) {
        self.places.clear();
        self.reached = Places::default();
        self.asked = self.issuers.pop_front();
        if let Some(asked) = &self.asked {
            self.places.extend(asked.server_metadata().filter_map(|text| Place::parse(&text)).map(Ok));
        }
    }

    /// Requests metadata from the current place.
    pub(super) fn request_metadata(&mut self, core: &mut Core) -> Option<Input> {
        match self.places.front() {
            Some(Ok(place)) => {
                self.exchange = core.get(place);
                None
            }
            Some(Err(why)) => {
                let why = why.clone();
                self.set_why(self.stage(), why);
                Some(take::metadata(Answer::Refused, self.rest(), self.reached))
            }
            None => None,
        }
    }

    /// Where else metadata may be.
    fn rest(&self) -> Rest {
        let (others, conventions) = match self.state.0 {
            State::Resource => (false, !self.is_modern),
            State::Assumed => (false, true),
            State::Server
            | State::Idle
            | State::Planning
            | State::Registering
            | State::Queued
            | State::User
            | State::Exchanging
            | State::Signing
            | State::Token
            | State::Pausing => (!self.issuers.is_empty(), false),
        };
        match (others || self.places.len() > 1, conventions) {
            (true, _) => Rest::Further,
            (false, true) => Rest::Conventions,
            (false, false) => Rest::Nothing,
        }
    }

    /// The response from the current place ended.
    pub(super) fn metadata_ended(&mut self, core: &Core, exchange: &Exchange) -> Option<Input> {
        let Some(Ok(place)) = self.places.front().cloned() else { return None };
        let status = exchange.status.unwrap_or_default();
        if status.is_redirection() {
            let target = exchange.location.as_deref().and_then(|location| place.resolve(location));
            return Some(self.moved(&place, target));
        }
        if status != StatusCode::OK {
            return Some(self.unusable(
                authorization_plan::Place::Responded,
                &format!("`{place}` answered HTTP {}", status.as_u16()),
            ));
        }
        let read = match (self.state.0, &self.asked) {
            (State::Server | State::Assumed, Some(asked)) => {
                let read = |asked| {
                    Server::read(&exchange.body, asked, core.zone, &core.options).map(Box::new).map(Document::Server)
                };
                match (read(asked), self.slashed(asked)) {
                    (Err(Unfit::Refused(_)), Some(slashed)) => read(&slashed),
                    (read, _) => read,
                }
            }
            _ => Resource::read(&exchange.body, &core.server, core.zone, &core.options).map(Document::Resource),
        };
        Some(match read {
            Ok(document) => {
                let input = take::metadata(Answer::Accepted, self.rest(), self.reached);
                match document {
                    Document::Resource(resource) => self.resource = Some(resource),
                    Document::Server(server) => self.set_server(*server),
                }
                input
            }
            Err(Unfit::NoMetadata(why)) => {
                self.unusable(authorization_plan::Place::Responded, &format!("at `{place}`, {why}"))
            }
            Err(Unfit::Refused(why)) => self.refused(&place, &why),
        })
    }

    /// An assumed issuer has no spelling of its own: with a final slash it is the same.
    fn slashed(&self, asked: &Place) -> Option<Place> {
        Place::parse(&format!("{}/", asked.text())).filter(|_| self.state.0 == State::Assumed)
    }

    fn moved(&mut self, from: &Place, target: Option<Place>) -> Input {
        let within = target.filter(|to| to.is_same_origin(from) && self.redirects < REDIRECTS);
        let answer = if within.is_some() { Answer::Moved } else { Answer::MovedAway };
        let input = take::metadata(answer, self.rest(), self.reached);
        match (within, self.places.front_mut()) {
            (Some(target), Some(front)) => {
                *front = Ok(target);
                self.redirects = self.redirects.saturating_add(1);
            }
            _ => {
                let why = format!("`{from}` redirects to another origin, to no URL, or more than {REDIRECTS} times");
                self.set_why(self.stage(), why);
            }
        }
        input
    }

    /// The current place has no metadata, or did not respond.
    pub(super) fn unusable(&mut self, place: authorization_plan::Place, why: &str) -> Input {
        let reached = take::places(self.reached, place);
        self.reached = reached;
        let input = take::metadata(Answer::Unusable, self.rest(), reached);
        if input == Input::Next {
            self.places.pop_front();
            if self.places.is_empty() {
                self.next_server();
            }
        }
        self.redirects = 0;
        let found = match reached {
            Places::Unreached => "whether there is metadata is not known",
            Places::Responded => "there is no metadata",
        };
        self.set_why(self.stage(), format!("{found}; last, {why}"));
        input
    }

    /// What the current place has is not used.
    pub(super) fn refused(&mut self, place: &Place, why: &str) -> Input {
        let why: Box<str> = format!("the metadata at `{place}` is refused: {why}").into();
        let input = take::metadata(Answer::Refused, self.rest(), self.reached);
        self.set_why(self.stage(), why);
        input
    }
}
