//! Equality of values that hold raw JSON: it is compared byte for byte.

use serde_json::value::RawValue;

use super::{Event, InputRequest, Outcome, Progress, Request, Task};

fn same(one: Option<&RawValue>, other: Option<&RawValue>) -> bool {
    one.map(RawValue::get) == other.map(RawValue::get)
}

impl PartialEq for Event {
    fn eq(&self, other: &Self) -> bool {
        match self {
            Self::Ready => matches!(other, Self::Ready),
            Self::CatalogChanged { family, difference } => {
                matches!(other, Self::CatalogChanged { family: f, difference: d } if family == f && difference == d)
            }
            Self::Refreshed { family, outcome } => {
                matches!(other, Self::Refreshed { family: f, outcome: o } if (family, outcome) == (f, o))
            }
            Self::Finished { request, outcome, attempts } => {
                matches!(other, Self::Finished { request: r, outcome: o, attempts: a }
                    if (request, outcome, attempts) == (r, o, a))
            }
            Self::Resending { request, attempt, reason } => {
                matches!(other, Self::Resending { request: r, attempt: a, reason: why }
                    if (request, attempt, reason) == (r, a, why))
            }
            Self::InputRequired { request, inputs } => {
                matches!(other, Self::InputRequired { request: r, inputs: i } if request == r && inputs == i)
            }
            Self::Unauthorized { request, forbidden, why, challenges } => {
                matches!(other, Self::Unauthorized { request: r, forbidden: f, why: w, challenges: c }
                    if (request, forbidden, why, challenges) == (r, f, w, c))
            }
            Self::ServerRequest { id, method, params } => {
                matches!(other, Self::ServerRequest { id: i, method: m, params: p }
                    if (id, method) == (i, m) && same(params.as_deref(), p.as_deref()))
            }
            Self::ServerRequestEnded { id, reason } => {
                matches!(other, Self::ServerRequestEnded { id: i, reason: r } if (id, reason) == (i, r))
            }
            Self::Progress { request, progress } => {
                matches!(other, Self::Progress { request: r, progress: p } if request == r && progress == p)
            }
            Self::Task { request, task } => {
                matches!(other, Self::Task { request: r, task: t } if request == r && task == t)
            }
            Self::ElicitationComplete { id, request } => {
                matches!(other, Self::ElicitationComplete { id: i, request: r } if id == i && request == r)
            }
            Self::Subscription { uri, outcome } => {
                matches!(other, Self::Subscription { uri: u, outcome: o } if uri == u && outcome == o)
            }
            Self::ResourceUpdated { uri } => matches!(other, Self::ResourceUpdated { uri: u } if uri == u),
            Self::Log { level, logger, data } => {
                matches!(other, Self::Log { level: l, logger: g, data: d }
                    if (level, logger, data.get()) == (l, g, d.get()))
            }
            Self::LogLevelFailed { error } => matches!(other, Self::LogLevelFailed { error: e } if error == e),
            Self::Notification { method, params } => {
                matches!(other, Self::Notification { method: m, params: p }
                    if method == m && same(params.as_deref(), p.as_deref()))
            }
            Self::Quirk(quirk) => matches!(other, Self::Quirk(q) if quirk == q),
            Self::Down { failure, next } => {
                matches!(other, Self::Down { failure: f, next: n } if failure == f && next == n)
            }
            Self::Closed { cause } => matches!(other, Self::Closed { cause: c } if cause == c),
        }
    }
}

impl Eq for Event {}

impl PartialEq for Outcome {
    fn eq(&self, other: &Self) -> bool {
        match self {
            Self::Result(result) => matches!(other, Self::Result(r) if result.get() == r.get()),
            Self::Error(error) => matches!(other, Self::Error(e) if error == e),
            Self::InputRequired(result) => matches!(other, Self::InputRequired(r) if result.get() == r.get()),
            Self::NotAdvertised => matches!(other, Self::NotAdvertised),
            Self::TimedOut(bound) => matches!(other, Self::TimedOut(b) if bound == b),
            Self::Cancelled => matches!(other, Self::Cancelled),
            Self::NotSent => matches!(other, Self::NotSent),
            Self::Unknown => matches!(other, Self::Unknown),
        }
    }
}

impl Eq for Outcome {}

impl PartialEq for InputRequest {
    fn eq(&self, other: &Self) -> bool {
        let Self { key, method, params } = self;
        (key, method) == (&other.key, &other.method) && same(params.as_deref(), other.params.as_deref())
    }
}

impl Eq for InputRequest {}

impl PartialEq for Progress {
    fn eq(&self, other: &Self) -> bool {
        self.raw().get() == other.raw().get()
    }
}

impl Eq for Progress {}

impl PartialEq for Task {
    fn eq(&self, other: &Self) -> bool {
        self.raw().get() == other.raw().get()
    }
}

impl Eq for Task {}

impl PartialEq for Request {
    fn eq(&self, other: &Self) -> bool {
        let Self { method, params, timeout, max_timeout, progress, replay, trace } = self;
        (method, timeout, max_timeout, progress, replay, trace)
            == (&other.method, &other.timeout, &other.max_timeout, &other.progress, &other.replay, &other.trace)
            && same(params.as_deref(), other.params.as_deref())
    }
}

impl Eq for Request {}
