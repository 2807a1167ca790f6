//! Properties of a hub under random operations, which are those of the fuzz target `hub`.

use std::time::Duration;

use crate::common::drain;
use crate::fuzz_bodies::bodies::hub::{World, hub, is_unchanged};
use mcp_proto::Time;
use mcp_proto::host::config::Configuration;
use mcp_proto::host::hub::Hub;
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use serde_json::json;

type Command = fn(&mut Hub, Time, &World) -> Option<Result<(), String>>;

fn text<T>(result: Result<T, impl std::fmt::Debug>) -> Result<(), String> {
    result.map(drop).map_err(|error| format!("{error:?}"))
}

/// Each command of a hub, if there is something to apply it to.
const COMMANDS: &[Command] = &[
    |hub, now, world| {
        let configuration: Configuration = serde_json::from_value(json!(world.entries)).unwrap();
        Some(text(hub.configure(now, configuration)))
    },
    |hub, now, _| Some(text(hub.open(now))),
    |hub, now, world| Some(text(hub.start(now, world.names[0]))),
    |hub, now, world| Some(text(hub.authorized(now, world.names[0]))),
    |hub, now, world| world.saved.last().map(|saved| text(hub.restore(now, world.names[0], saved.clone()))),
    |hub, now, _| Some(text(hub.call(now, "mcp_no_such_tool", None))),
    |hub, now, world| {
        // The called name is the same for both hubs.
        let function = world.rig.hub.functions().next().map(|(_, function)| function.name.to_string());
        function.map(|name| text(hub.call(now, &name, None)))
    },
    |hub, now, world| world.calls.last().map(|call| text(hub.cancel(now, *call))),
    |hub, now, world| {
        let session = world.handles.last().copied();
        session.map(|session| text(hub.session_mut(session).request(now, mcp_proto::Request::new("vendor/thing"))))
    },
    |hub, now, _| Some(text(hub.close(now))),
];

/// Options and operations.
fn operations() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 7..200)
}

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct("proptest-regressions/hub_laws.txt"))),
        ..ProptestConfig::default()
    }
}

proptest! {
    // `.ci/fuzz` runs the same over thousands of inputs.
    #![proptest_config(config(150))]

    #[test]
    fn laws_hold(bytes in operations()) {
        World::run(&bytes).end();
    }
}

proptest! {
    #![proptest_config(config(100))]

    #[test]
    fn a_command_first_handles_due_deadlines_and_changes_nothing_else_if_refused(
        bytes in operations(),
        late in 1..150_000_u32,
    ) {
        let world = World::run(&bytes);
        let now = world.rig.now + Duration::from_millis(late.into());
        let mut served = world.rig.hub.clone();
        served.handle_timeout(now);
        for (number, command) in COMMANDS.iter().enumerate() {
            let (mut hub, mut expected) = (world.rig.hub.clone(), served.clone());
            let results = (command(&mut hub, now, &world), command(&mut expected, now, &world));
            let (Some(result), Some(other)) = results else { continue };
            prop_assert_eq!(&result, &other, "command {}", number);
            let unchanged = result.is_ok() || is_unchanged(&world.rig.hub, &hub, now);
            prop_assert!(unchanged, "command {} was refused and changed something", number);
            let (mut actions, mut others) = (vec![], vec![]);
            drain(|| hub.poll().map(|action| actions.push(format!("{action:?}"))));
            drain(|| expected.poll().map(|action| others.push(format!("{action:?}"))));
            prop_assert_eq!(actions, others, "command {}", number);
        }
    }
}

proptest! {
    #![proptest_config(config(50))]

    #[test]
    fn equal_inputs_give_equal_outputs(bytes in operations()) {
        prop_assert_eq!(hub(&bytes), hub(&bytes));
    }
}

#[cfg(feature = "snapshot")]
mod moves {
    use super::*;

    proptest! {
        #![proptest_config(config(100))]

        #[test]
        fn a_hub_saved_and_restored_after_each_step_behaves_the_same(bytes in operations()) {
            let mut moved = World::run_and(&bytes, World::move_with_transport);
            moved.end();
            let mut world = World::run(&bytes);
            world.end();
            prop_assert_eq!(moved.outputs(), world.outputs());
        }

        #[test]
        fn a_restored_hub_is_saved_as_the_hub_before_it(bytes in operations()) {
            use mcp_proto::{Moved, Secrets};

            World::run_and(&bytes, |world| {
                let hub = &world.rig.hub;
                let saved = hub.snapshot(Secrets::Included);
                let (options, configuration) = (world.rig.options.clone(), hub.configuration().clone());
                let restored = Hub::from_snapshot(options, configuration, &saved, Moved::WithTransport).unwrap();
                let text = |snapshot| serde_json::to_string(snapshot).unwrap();
                assert_eq!(text(&restored.snapshot(Secrets::Included)), text(&saved));
            });
        }

        #[test]
        fn a_hub_that_moves_without_its_transports_ends_each_call_once(
            before in operations(),
            secrets in any::<bool>(),
            after in prop::collection::vec(any::<u8>(), 1..200),
        ) {
            let moved: &[u8] = if secrets { b"N0" } else { b"N1" };
            World::run(&[&before, moved, &after].concat()).end();
        }
    }

    #[cfg(feature = "oauth")]
    proptest! {
        // Each compares all states of a run.
        #![proptest_config(config(25))]

        #[test]
        fn authorizations_change_nothing_for_servers_that_do_not_use_them(bytes in operations()) {
            use mcp_proto::Secrets;
            use mcp_proto::binding::oauth::OAuthOptions;
            use mcp_proto::host::hub::HubOAuth;

            let saved = |hub: &Hub| serde_json::to_string(&hub.snapshot(Secrets::Included)).unwrap();
            let oauth = HubOAuth::new(OAuthOptions::new("suite", "http://127.0.0.1/"), [1; 32], Time::ZERO, Duration::ZERO);
            World::run_and(&bytes, |world| {
                let hub = world.rig.hub.clone().with_oauth(oauth.clone());
                assert_eq!(saved(&hub), saved(&world.rig.hub));
            });
        }
    }
}
