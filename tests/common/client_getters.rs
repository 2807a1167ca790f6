//! Getters that all simulated clients share.

/// Getters for a type with a `session` and its `events`.
macro_rules! client_getters {
    () => {
        pub fn result_of(&self, request: mcp_proto::RequestId) -> &mcp_proto::Outcome {
            self.ended(request).expect("the request ended")
        }

        pub fn ended(&self, request: mcp_proto::RequestId) -> Option<&mcp_proto::Outcome> {
            let mut outcomes = self.events.iter().filter_map(|event| match event {
                mcp_proto::Event::Finished { request: ended, outcome, .. } if *ended == request => Some(outcome),
                _ => None,
            });
            let outcome = outcomes.next();
            assert!(outcomes.next().is_none(), "a request ends once");
            outcome
        }

        pub fn failure(&self) -> Option<&mcp_proto::Failure> {
            self.events.iter().find_map(|event| match event {
                mcp_proto::Event::Down { failure, .. } => Some(failure),
                _ => None,
            })
        }

        pub fn failure_kind(&self) -> Option<mcp_proto::FailureKind> {
            self.failure().map(|failure| failure.kind)
        }

        pub fn cause(&self) -> Option<&mcp_proto::Cause> {
            self.events.iter().find_map(|event| match event {
                mcp_proto::Event::Closed { cause } => Some(cause),
                _ => None,
            })
        }

        /// The kinds of the recorded quirks, in order.
        pub fn quirks(&self) -> Vec<mcp_proto::QuirkKind> {
            self.session.quirks().iter().map(|quirk| quirk.kind).collect()
        }

        /// The methods of the recorded quirks of this kind.
        pub fn quirk_methods(&self, kind: mcp_proto::QuirkKind) -> Vec<&str> {
            let of_kind = self.session.quirks().iter().filter(|quirk| quirk.kind == kind);
            of_kind.map(|quirk| quirk.method.as_deref().unwrap_or("")).collect()
        }

        pub fn keys(&self, family: mcp_proto::Family) -> Vec<&str> {
            self.session.catalog().list(family).iter().map(|(key, _)| key).collect()
        }

        pub fn status(&self, family: mcp_proto::Family) -> mcp_proto::FamilyStatus {
            self.session.family(family).status
        }

        pub fn is_ready(&self) -> bool {
            self.session.is_ready()
        }
    };
}

pub(crate) use client_getters;
