//! Names of the host's own functions, which are never given to tools.

use mcp_proto::Options;
use mcp_proto::host::config::Configuration;
use mcp_proto::host::hub::{Hub, HubOptions};
use mcp_proto::host::names::{Names, Renamed, Style, Target};
use mcp_proto::testkit::{Collector, FakeServer, FakeTool, Link, Sim};
use serde_json::json;

use crate::common::seconds;

fn names(reserved: &[&str], style: Style) -> Names {
    let mut names = Names::new(style);
    names.reserve(reserved.iter().copied());
    names
}

#[test]
fn a_model_never_gets_a_tool_under_a_reserved_name() {
    let mut options = HubOptions::new(Options::new("host", "1"));
    options.names = names(&["mcp_files_read", "mcp_files_list_resources"], Style::MCP);
    let server = FakeServer::legacy().tool(FakeTool::new("read")).tool(FakeTool::new("write")).resource("r:1");
    let mut sim = Sim::new(1).with_server("files", server, Link::default());
    let node = sim.add_hub(Collector::new(Hub::new(options, 1)));
    let configuration: Configuration = serde_json::from_value(json!({"files": {"command": "x"}})).unwrap();
    sim.tell(node, |now, hub| hub.configure(now, configuration)).unwrap().unwrap();
    sim.tell(node, |now, hub| hub.open(now)).unwrap().unwrap();
    sim.run_for(seconds(5)).unwrap();
    let names: Vec<String> = sim.get(node).unwrap().functions().map(|(_, it)| it.name.to_string()).collect();
    assert_eq!(names.len(), 4, "{names:?}");
    assert!(
        names.contains(&"mcp_files_write".into()) && names.contains(&"mcp_files_read_resource".into()),
        "{names:?}"
    );
    assert!(!names.contains(&"mcp_files_read".into()) && !names.contains(&"mcp_files_list_resources".into()));
    let read = names.iter().find(|name| name.starts_with("mcp_files_read_") && !name.ends_with("resource")).unwrap();
    let call = sim.tell(node, |now, hub| hub.call(now, read, None)).unwrap();
    assert!(call.is_ok(), "{call:?}");
    sim.run_for(seconds(5)).unwrap();
    assert_eq!(sim.server("files").unwrap().tool_runs("read"), 1);
    assert!(sim.tell(node, |now, hub| hub.call(now, "mcp_files_read", None)).unwrap().is_err());
}

#[test]
fn a_reserved_suffix_and_a_restored_reserved_name_are_not_given() {
    let read = Target::tool("read");
    let mut first = names(&["s_read"], Style::SERVER);
    first.update([("s", [read.clone()])]);
    let suffixed = first.name("s", &read).unwrap().into_owned();
    assert_eq!(first.renamed("s", &read), Some(Renamed::Taken));

    let mut second = names(&["s_read", &suffixed], Style::SERVER);
    second.update([("s", [read.clone()])]);
    let next = second.name("s", &read).unwrap().into_owned();
    assert!(next != suffixed && next.starts_with("s_read_"));

    let mut restored = names(&["s_read"], Style::SERVER);
    restored.restore([("s_read", "s", read.clone())]);
    assert_eq!(restored.name("s", &read), None);
    restored.update([("s", [read.clone()])]);
    assert_eq!(restored.name("s", &read).as_deref(), Some(&*suffixed));
}

#[test]
fn an_assigned_name_stays() {
    let read = Target::tool("read");
    let mut names = Names::new(Style::SERVER);
    names.update([("s", [read.clone()])]);
    names.reserve(["s_read"]);
    names.update([("s", [read.clone(), Target::tool("other")])]);
    assert_eq!(names.name("s", &read).as_deref(), Some("s_read"));
    assert_eq!(names.reserved().collect::<Vec<_>>(), ["s_read"]);
}

#[cfg(feature = "serde")]
#[test]
fn reserved_names_are_serialized() {
    let mut names = names(&["s_read", "memory"], Style::SERVER);
    names.update([("s", ["read", "write"].map(Target::tool))]);
    let text = serde_json::to_string(&names).unwrap();
    let mut read: Names = serde_json::from_str(&text).unwrap();
    assert_eq!(read, names);
    read.update([("memory", [Target::tool("x")]), ("s", [Target::tool("read")])]);
    assert!(read.resolve("s_read").is_none());
    assert!(!serde_json::to_string(&Names::new(Style::MCP)).unwrap().contains("reserved"));
}
