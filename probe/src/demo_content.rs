//! The content of the demo server: definitions and texts.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Map, Number, Value, json};

/// Which of the changing tools are present.
#[derive(Clone, Copy, Default)]
pub(crate) struct Guests {
    pub(crate) surprise: bool,
    pub(crate) butterfly: bool,
}

/// The resource that changes.
pub(crate) const RAIN: &str = "garden://rain";

pub(crate) const INSTRUCTIONS: &str = "A make-believe garden for trying out an MCP client: \
    nothing here grows, and nothing here breaks.";

pub(crate) fn server_info() -> Value {
    json!({"name": "demo-garden", "title": "Demo garden", "version": env!("CARGO_PKG_VERSION")})
}

pub(crate) fn capabilities() -> Value {
    json!({
        "tools": {"listChanged": true},
        "prompts": {"listChanged": true},
        "resources": {"listChanged": true, "subscribe": true},
    })
}

/// URI, name, media type, title, text.
const RESOURCES: &str = r##"[
["garden://welcome", "welcome", "text/markdown", "Welcome",
 "# The demo garden\n\nThe gate is never locked. Mind the hedgehog.\n"],
["garden://beds/herbs", "herbs", "text/markdown", "The herb bed",
 "# Herbs\n\n- thyme, by the path\n- lemon balm, everywhere\n- basil, when the snails agree\n"],
["garden://beds/roses", "roses", "text/markdown", "The rose bed",
 "# Roses\n\nThree old bushes. The yellow one was here before the house.\n"],
["garden://beds/pumpkins", "pumpkins", "text/markdown", "The pumpkin bed",
 "# Pumpkins\n\nOne vine, two pumpkins, and a plan to reach the compost heap.\n"],
["garden://rain", "rain", "application/json", "Rain this week",
 "{\"unit\": \"mm\", \"days\": [0, 4, 11, 2, 0, 0, 7]}"],
["garden://visitors", "visitors", "text/csv", "Visitors counted",
 "visitor,count\nbumblebee,14\nblackbird,2\nhedgehog,1\n"],
["garden://shed", "shed", "text/plain", "What is in the shed",
 "A spade, a rake, nine flowerpots, and the good chair.\n"]]"##;

const TEMPLATES: &str = r#"[
{"uriTemplate": "garden://beds/{bed}", "name": "bed", "title": "A bed", "mimeType": "text/markdown",
 "description": "What grows in a bed: herbs, roses or pumpkins."},
{"uriTemplate": "garden://months/{month}", "name": "month", "title": "A month's work", "mimeType": "text/plain",
 "description": "What to do in a month, named in English and in lower case."}]"#;

const PROMPTS: &str = r#"[
{"name": "haiku", "title": "Garden haiku", "description": "Asks for a haiku about something in the garden.",
 "arguments": [{"name": "subject", "description": "What the haiku is about.", "required": true}]},
{"name": "plant_doctor", "title": "Plant doctor", "description": "Asks what ails a plant.",
 "arguments": [{"name": "plant", "description": "The plant.", "required": true},
               {"name": "symptom", "description": "What looks wrong.", "required": true}]},
{"name": "week_plan", "title": "Plan for the week", "description": "Asks for seven small tasks.",
 "arguments": [{"name": "season", "description": "The season, if not the present one.", "required": false}]}]"#;

const TOOLS: &str = r#"[
{"name": "echo", "title": "Echo", "description": "Gives the text back.",
 "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"],
                 "additionalProperties": false},
 "annotations": {"readOnlyHint": true}},
{"name": "add", "title": "Add", "description": "Adds two numbers.",
 "inputSchema": {"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
                 "required": ["a", "b"], "additionalProperties": false},
 "outputSchema": {"type": "object", "properties": {"sum": {"type": "number"}}, "required": ["sum"]},
 "annotations": {"readOnlyHint": true}},
{"name": "sleep", "title": "Sleep", "description": "Answers after a while, and tells of its progress if asked to.",
 "inputSchema": {"type": "object", "required": ["ms"], "additionalProperties": false, "properties":
     {"ms": {"type": "integer", "minimum": 0, "description": "Milliseconds. More than 60000 counts as 60000."}}},
 "annotations": {"readOnlyHint": true}},
{"name": "slow", "title": "Slow",
 "description": "Waters the beds, which takes four seconds; tells of its progress if asked to.",
 "inputSchema": {"type": "object", "additionalProperties": false},
 "annotations": {"destructiveHint": false, "idempotentHint": false}},
{"name": "fail", "title": "Fail", "description": "Fails, always.",
 "inputSchema": {"type": "object", "additionalProperties": false}},
{"name": "toggle_tool", "title": "Toggle a tool", "description": "Adds the tool `surprise`, or takes it away again.",
 "inputSchema": {"type": "object", "additionalProperties": false},
 "annotations": {"destructiveHint": false, "idempotentHint": false}},
{"name": "server_time", "title": "Server time", "description": "Tells the time on the server.",
 "inputSchema": {"type": "object", "additionalProperties": false}, "annotations": {"readOnlyHint": true}},
{"name": "surprise", "title": "Surprise", "description": "Only there after `toggle_tool`.",
 "inputSchema": {"type": "object", "additionalProperties": false}, "annotations": {"readOnlyHint": true}},
{"name": "butterfly", "title": "Butterfly", "description": "Comes and goes by itself, while the garden is watched.",
 "inputSchema": {"type": "object", "additionalProperties": false}, "annotations": {"readOnlyHint": true}}]"#;

const MONTHS: &str = r#"{
"january": "Read seed catalogues by the stove.", "february": "Prune the roses before they wake.",
"march": "Sow peas. Cover them from the pigeons.", "april": "Plant potatoes, and watch the night frost.",
"may": "Set the pumpkins out after the ice saints.", "june": "Pick strawberries early, before the blackbird.",
"july": "Water at dusk. Sit in the good chair.", "august": "Cut the lavender, leave some to the bees.",
"september": "Harvest onions and hang them in the shed.", "october": "Carry the pumpkins in, one at a time.",
"november": "Rake the leaves into a heap for the hedgehog.", "december": "Feed the birds. The garden sleeps."}"#;

/// The definitions in a text, which is JSON.
fn parsed<T: Default + serde::de::DeserializeOwned>(text: &str) -> T {
    serde_json::from_str(text).unwrap_or_default()
}

/// A resource's media type and text, listed or from a template. Each rain event increases today's amount.
pub(crate) fn read(uri: &str, showers: u8) -> Option<(String, String)> {
    if let Some(month) = uri.strip_prefix("garden://months/") {
        let months: Map<String, Value> = parsed(MONTHS);
        return Some(("text/plain".into(), months.get(month)?.as_str()?.into()));
    }
    let resources: Vec<[String; 5]> = parsed(RESOURCES);
    let [.., mime_type, _, text] = resources.into_iter().find(|[own, ..]| own == uri)?;
    let text = if uri == RAIN { rain(showers) } else { text };
    Some((mime_type, text))
}

/// The week's rain; the length of the text is constant and matches the list.
fn rain(showers: u8) -> String {
    let today = showers.saturating_add(7).min(9);
    format!(r#"{{"unit": "mm", "days": [0, 4, 11, 2, 0, 0, {today}]}}"#)
}

pub(crate) fn resources() -> Vec<Value> {
    let resources: Vec<[String; 5]> = parsed(RESOURCES);
    let listed = resources.into_iter().map(|[uri, name, mime_type, title, text]| {
        json!({"uri": uri, "name": name, "title": title, "mimeType": mime_type, "size": text.len()})
    });
    listed.collect()
}

pub(crate) fn templates() -> Vec<Value> {
    parsed(TEMPLATES)
}

pub(crate) fn prompts() -> Vec<Value> {
    parsed(PROMPTS)
}

pub(crate) fn tools(guests: Guests) -> Vec<Value> {
    let mut tools: Vec<Value> = parsed(TOOLS);
    tools.retain(|tool| match tool.get("name").and_then(Value::as_str) {
        Some("surprise") => guests.surprise,
        Some("butterfly") => guests.butterfly,
        Some(_) | None => true,
    });
    tools
}

/// The text of a prompt in `prompts`, with checked arguments.
pub(crate) fn prompt<'a>(name: &str, argument: impl Fn(&str) -> Option<&'a str>) -> String {
    let given = |key| argument(key).unwrap_or_default();
    match name {
        "haiku" => format!("Write a haiku about {}.", given("subject")),
        "plant_doctor" => format!(
            "My {} looks poorly: {}. What could it be, and what should I try first?",
            given("plant"),
            given("symptom"),
        ),
        _ => {
            let season = argument("season").unwrap_or("this season");
            format!("Plan a week of garden work for {season}: one small task a day.")
        }
    }
}

/// Calls a tool that needs no server state: its result, or a message for the model.
pub(crate) fn call(name: &str, arguments: &Map<String, Value>) -> Result<Value, String> {
    match name {
        "echo" => argument(arguments, "text", Value::as_str).map(text),
        "add" => add(arguments),
        "server_time" => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            Ok(text(&format!("{} seconds since 1970, in UTC.", now.as_secs())))
        }
        "surprise" => Ok(text("A hedgehog, under the lavender.")),
        "butterfly" => Ok(text("A brimstone. It does not stay long.")),
        // Only `fail` remains.
        _ => Err("The frost got it: nothing was harvested.".into()),
    }
}

fn add(arguments: &Map<String, Value>) -> Result<Value, String> {
    let a = argument(arguments, "a", Value::as_number)?;
    let b = argument(arguments, "b", Value::as_number)?;
    // The sum of integers is an integer: 2 and 3 make 5, not 5.0.
    let whole = a.as_i64().zip(b.as_i64()).and_then(|(a, b)| a.checked_add(b));
    let sum = whole
        .map(Number::from)
        .or_else(|| Number::from_f64(a.as_f64()? + b.as_f64()?))
        .ok_or("The sum is too large.")?;
    let sum = json!({"sum": sum});
    let text = sum.to_string();
    Ok(json!({"content": [{"type": "text", "text": text}], "structuredContent": sum}))
}

pub(crate) fn text(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}]})
}

/// A tool's argument, or a message for the model.
pub(crate) fn argument<'a, T>(
    arguments: &'a Map<String, Value>,
    key: &str,
    read: impl FnOnce(&'a Value) -> Option<T>,
) -> Result<T, String> {
    let value = arguments.get(key).ok_or_else(|| format!("The argument `{key}` is missing."))?;
    read(value).ok_or_else(|| format!("The argument `{key}` is of the wrong type."))
}
