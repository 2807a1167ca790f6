//! Results of tools: views of them, and their bounds.

use mcp_proto::RawValue;
use mcp_proto::host::results::{bound, one_form};
use mcp_proto::protocol::content::{MAX_VALUES, ToolResult};

use super::Case;
use crate::meter::{Cost, measure};

pub fn cases() -> Vec<Case> {
    vec![
        Case::new("result-blocks", 5_000, result_blocks).at_most(MAX_VALUES * 512),
        Case::new("result-blocks-bounded", 5_000, result_blocks_bounded).at_most(16 << 10),
        Case::new("result-forms", 2_000, result_forms).each(128),
    ]
}

/// A result with blocks as short as possible.
fn result(n: usize) -> Box<RawValue> {
    RawValue::from_string(format!(r#"{{"content":[{}0]}}"#, "0,".repeat(n))).expect("valid JSON")
}

fn result_blocks(n: usize) -> Cost {
    let result = result(n);
    measure(result.get().len(), || {
        let view = ToolResult::read(&result);
        assert!(view.is_cut_off);
        view.content.len()
    })
}

/// A text for each form that is like the other one, and differs.
fn result_forms(n: usize) -> Cost {
    let structured = format!(r#"{{"a":[{}0]}}"#, "0,".repeat(n));
    let texts = r#"{"type":"text","text":"{}"},"#.repeat(n);
    let texts = texts.trim_end_matches(',');
    let result = format!(r#"{{"content":[{texts}],"structuredContent":{structured}}}"#);
    let result = RawValue::from_string(result).expect("valid JSON");
    measure(result.get().len(), || one_form(&result, |_| false).get().len())
}

fn result_blocks_bounded(n: usize) -> Cost {
    let result = result(n);
    measure(result.get().len(), || {
        let bounded = bound(&result, 4096);
        assert!(bounded.left_out.is_some());
        bounded.result.get().len()
    })
}
