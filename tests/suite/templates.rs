//! The expansion of resource templates.

use crate::common::{Host, Server, legacy};
use mcp_proto::catalog::{TemplateError, Variable};
use proptest::prelude::*;
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
    // 64 KiB, of a template and of a URI, are not too much.
    let longest = "a".repeat(64 << 10);
    assert_eq!(expand(&longest, &[]).as_deref(), Ok(&*longest));
    for (template, value) in [("{x}", &*longest), ("{+x}", &longest), ("a{x}", &longest[1..])] {
        assert_eq!(expand(template, &[("x", Variable::Text(value))]).as_deref(), Ok(&*longest), "{template}");
    }
    for template in ["{x}b", "b{+x}"] {
        let uri = expand(template, &[("x", Variable::Text(&longest))]);
        assert_eq!(uri, Err(TemplateError::UriTooLong), "{template}");
    }
}

#[test]
fn lists_maps_and_empty_values_are_expanded_as_in_rfc_6570() {
    let values = [
        ("empty", Variable::Text("")),
        ("path", Variable::Text("/foo/bar")),
        ("half", Variable::Text("50%")),
        ("base", Variable::Text("http://example.com/home/")),
        ("list", Variable::List(&["red", "green", "blue"])),
        ("one", Variable::List(&[""])),
        ("keys", Variable::Map(&[("semi", ";"), ("dot", "."), ("comma", ",")])),
        ("blank", Variable::Map(&[("a", "")])),
        ("none", Variable::List(&[])),
        ("nothing", Variable::Map(&[])),
        ("a.b", Variable::Text("dotted")),
        ("%41", Variable::Text("encoded")),
    ];
    for (template, uri) in [
        ("{+half}", "50%25"),
        ("{half}", "50%25"),
        ("{base}index", "http%3A%2F%2Fexample.com%2Fhome%2Findex"),
        ("{+base}index", "http://example.com/home/index"),
        ("{+path:6}/here", "/foo/b/here"),
        ("{+list}", "red,green,blue"),
        ("{+list*}", "red,green,blue"),
        ("{+keys*}", "semi=;,dot=.,comma=,"),
        ("{#path:6}here", "#/foo/bhere"),
        ("{#keys}", "#semi,;,dot,.,comma,,"),
        ("{keys}", "semi,%3B,dot,.,comma,%2C"),
        ("{/list*,path:4}", "/red/green/blue/%2Ffoo"),
        ("{;list}", ";list=red,green,blue"),
        ("{;list*}", ";list=red;list=green;list=blue"),
        ("{;keys*}", ";semi=%3B;dot=.;comma=%2C"),
        ("{?list*}", "?list=red&list=green&list=blue"),
        ("{&keys}", "&keys=semi,%3B,dot,.,comma,%2C"),
        ("{?empty}{;empty}{&empty}", "?empty=;empty&empty="),
        ("{?one}{;one*}{;blank*}{?blank*}", "?one=;one;a?a="),
        ("X{.empty}{/empty}{#empty}", "X./#"),
        ("a{none}{?nothing*}b{;none:3}", "ab"),
        ("{a.b}{%41}", "dottedencoded"),
        ("a%41é", "a%41%C3%A9"),
    ] {
        assert_eq!(expand(template, &values).as_deref(), Ok(uri), "{template}");
    }
}

#[test]
fn characters_beyond_ascii_are_encoded_and_cut_between_characters() {
    for (template, value, uri) in [
        ("{+a}", "é", "%C3%A9"),
        ("{#a}", "日本%", "#%E6%97%A5%E6%9C%AC%25"),
        ("{+a}", "%é", "%25%C3%A9"),
        ("{+a}", "%4é%C3%A9", "%254%C3%A9%C3%A9"),
        ("{a}", "%C3%A9", "%25C3%25A9"),
        ("{a:2}", "日本語", "%E6%97%A5%E6%9C%AC"),
        ("{+a:2}", "日本語", "%E6%97%A5%E6%9C%AC"),
        ("{+a:1}", "%C3%A9x", "%C3%A9"),
        ("{a:4}", "%41b", "%2541b"),
    ] {
        assert_eq!(expand(template, &[("a", Variable::Text(value))]).as_deref(), Ok(uri), "{template} {value}");
    }
    let list = Variable::List(&["é%"]);
    assert_eq!(expand("{+a}", &[("a", list)]).as_deref(), Ok("%C3%A9%25"));
    for template in
        ["%4é", "%aé", "{a}%4é", "%}é", "%é", "a%", "{é}", "{a%é}", "{a:é}", "{a:0}", "{a:10000}", "{%4}", "{}", "{+}"]
    {
        let found = with(template, |it| (it.variables().map(drop), it.expand([])));
        assert!(
            matches!(found, (Err(TemplateError::Syntax(_)), Err(TemplateError::Syntax(_)))),
            "{template}: {found:?}"
        );
    }
}

proptest! {
    /// A template is a server's, and the values are a model's: no text panics, and what is expanded is a URI's text.
    #[test]
    fn any_template_and_any_value_expand_to_ascii_or_to_an_error(
        template in "([{}%+#./;?&=:*,|a1é日 ]|%C3%A9|[{][+#./;?&]?a(:[1-9]|[*])?[}]|[{]a,b[}]){0,8}",
        one in "([%4aé日,/ ]|%C3%A9){0,5}",
        other in "\\PC{0,4}",
    ) {
        let (list, map) = ([&*one, &*other, ""], [(&*one, &*other), ("", "%zz")]);
        with(&template, |it| {
            let names = it.variables().map(Iterator::count);
            for a in [Variable::Text(&one), Variable::Text(&other), Variable::List(&list), Variable::Map(&map)] {
                match it.expand([("a", a), ("b", Variable::Text(&other))]) {
                    Ok(uri) => {
                        assert!(uri.bytes().all(|byte| byte.is_ascii_graphic()), "{uri}");
                        assert!(names.is_ok());
                    }
                    // Of several faults it reports the first.
                    Err(TemplateError::Value(_)) => {}
                    Err(error) => assert_eq!(names.clone(), Err(error)),
                }
            }
        });
    }
}
