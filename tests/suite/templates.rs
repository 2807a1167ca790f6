//! The expansion of resource templates.

use crate::common::{Host, Server, legacy};
use mcp_proto::catalog::{TemplateError, Variable};
use serde_json::json;

fn with<T>(template: &str, test: impl FnOnce(mcp_proto::catalog::ResourceTemplate<'_>) -> T) -> T {
    let list = json!({"resourceTemplates": [{"uriTemplate": template, "name": "t"}]});
    let mut server = Server::legacy(json!({"resources": {}}))
        .result("resources/list", json!({"resources": []}))
        .result("resources/templates/list", list);
    let host = Host::connect(legacy(), &mut server);
    test(host.session.catalog().resource_templates().next().unwrap())
}

fn expand(template: &str, values: &[(&str, Variable<'_>)]) -> Result<String, TemplateError> {
    with(template, |template| template.expand(values.iter().copied()))
}

#[test]
fn expressions_of_each_kind_are_expanded_as_in_rfc_6570() {
    let values = [
        ("var", Variable::Text("value")),
        ("hello", Variable::Text("Hello World!")),
        ("path", Variable::Text("/foo/bar")),
        ("empty", Variable::Text("")),
        ("x", Variable::Text("1024")),
        ("y", Variable::Text("768")),
        ("list", Variable::List(&["red", "green", "blue"])),
        ("keys", Variable::Map(&[("semi", ";"), ("dot", "."), ("comma", ",")])),
    ];
    for (template, uri) in [
        ("file:///{var}", "file:///value"),
        ("a:{hello}", "a:Hello%20World%21"),
        ("a:{+path}/here", "a:/foo/bar/here"),
        ("a:X{#var}", "a:X#value"),
        ("a:map?{x,y}", "a:map?1024,768"),
        ("a:X{.list*}", "a:X.red.green.blue"),
        ("a:{/var,x}/here", "a:/value/1024/here"),
        ("a:{;x,y,empty}", "a:;x=1024;y=768;empty"),
        ("a:{?x,y}", "a:?x=1024&y=768"),
        ("a:?fixed=yes{&x}", "a:?fixed=yes&x=1024"),
        ("a:{var:3}", "a:val"),
        ("a:{list}", "a:red,green,blue"),
        ("a:{?keys*}", "a:?semi=%3B&dot=.&comma=%2C"),
        ("a:{missing}b{?missing,x}", "a:b?x=1024"),
    ] {
        assert_eq!(expand(template, &values).as_deref(), Ok(uri), "{template}");
    }
}

#[test]
fn the_variables_of_a_template_are_named_in_order() {
    let names = |template: &str| {
        with(template, |template| template.variables().map(|names| names.map(str::to_owned).collect::<Vec<_>>()))
    };
    assert_eq!(names("a:{x}{?y,z}/{x}").unwrap(), ["x", "y", "z", "x"]);
    assert!(names("a:b").unwrap().is_empty());
    assert!(matches!(names("a:{"), Err(TemplateError::Syntax(_))));
}

#[test]
fn an_invalid_template_or_value_is_a_typed_error() {
    for template in ["a:{", "a:}", "a:{x", "a:{!x}", "a:{x y}"] {
        assert!(matches!(expand(template, &[]), Err(TemplateError::Syntax(_))), "{template}");
    }
    let list = Variable::List(&["red"]);
    assert!(matches!(expand("a:{list:3}", &[("list", list)]), Err(TemplateError::Value(_))));
}

#[test]
fn a_template_with_10_000_expressions_has_a_size_limit() {
    let many = format!("a:{}", "{x}".repeat(10_000));
    let uri = expand(&many, &[("x", Variable::Text("y"))]).unwrap();
    assert_eq!(uri.len(), 10_002);
    let long = "y".repeat(10_000);
    assert_eq!(expand(&many, &[("x", Variable::Text(&long))]), Err(TemplateError::UriTooLong));
    let longer = format!("a:{}", "{x}".repeat(30_000));
    assert_eq!(expand(&longer, &[]), Err(TemplateError::TooLong { bytes: 90_002 }));
}
