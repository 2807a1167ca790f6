//! The report for people on all servers of a file.

use mcp_proto::host::toolset::Why;

use crate::report_all::ReportAll;
use crate::run::AllEnded;
use crate::text::{cut, one_line, pad, width};
use crate::text_report::{Page, Style};

/// Maximum tools shown, and maximum lines per section.
const TOOLS: usize = 200;
const LINES: usize = 40;
/// Maximum width of the name column.
const NAMES: usize = 48;

pub(crate) fn render(report: &ReportAll<'_>, ended: &AllEnded, colours: bool) -> String {
    let mut page = Page::new(colours);
    for (at, (name, server)) in report.servers.iter().enumerate() {
        if at > 0 {
            page.line("");
        }
        match ended.servers.iter().find(|ended| ended.peer.name == **name) {
            Some(ended) => page.brief(server, &ended.session, &ended.peer),
            None => {
                let title = page.style(Style::Bold, &one_line(name));
                let outcome = match &server.failure {
                    Some(failure) => page.style(Style::Red, &format!("of no use: {}", one_line(&failure.message))),
                    None => page.style(Style::Dim, "disabled, and so not opened"),
                };
                page.line(&format!("{title}  {outcome}"));
            }
        }
    }
    toolset(&mut page, report);
    let calls: Vec<_> = report.calls.iter().map(|call| call.call).collect();
    page.calls(&calls);
    page.out
}

fn toolset(page: &mut Page, report: &ReportAll<'_>) {
    let count = match report.toolset.len() {
        0 => page.style(Style::Yellow, "nothing"),
        count => page.style(Style::Green, &count.to_string()),
    };
    page.heading("What a model would get", &count);
    let shown = report.toolset.iter().take(TOOLS);
    let column = shown.clone().map(|function| width(&function.name)).max().unwrap_or(0).min(NAMES);
    for function in shown {
        let name = pad(&function.name, column);
        let room = page.columns.saturating_sub(width(&name)).saturating_sub(4);
        let what = function.description.as_deref().map(one_line).unwrap_or_default();
        let what = if room < 10 { String::new() } else { cut(&what, room) };
        let what = page.style(Style::Dim, &what);
        page.line(format!("  {name}  {what}").trim_end());
    }
    let more = report.toolset.len().saturating_sub(TOOLS);
    if more > 0 {
        page.line(&format!("  … and {more} more; --json has them all"));
    }

    // If only the server's name was changed, listing each of its tools adds nothing.
    let renamed = report.toolset.iter().filter(|function| !function.name.ends_with(&function.tool));
    let renamed = renamed.filter_map(|function| {
        let why = match function.renamed? {
            "characters" => "characters of it are replaced, as the style of names has it",
            "too-long" => "it would be too long",
            "configured" => "the configuration names it so",
            _ => "another tool has that name",
        };
        Some(format!("{}: {} of {}; {why}", function.name, one_line(&function.tool), one_line(&function.server)))
    });
    section(page, "Under another name than its own", renamed);
    // Utility tools for families that a server lacks are not listed.
    let not_offered = Why::NotOffered.to_string();
    let left_out = report.left_out.iter().filter(|left_out| left_out.why != not_offered);
    let left_out = left_out
        .map(|left_out| format!("{} of {}: {}", one_line(&left_out.tool), one_line(&left_out.server), left_out.why));
    section(page, "Left out", left_out);
    let suspicious = report.suspicious.iter().map(|found| {
        let (tool, server, excerpt) = (one_line(&found.tool), one_line(&found.server), one_line(&found.excerpt));
        format!("{tool} of {server}, {}: {}: {excerpt:?}", one_line(&found.at), found.sign)
    });
    section(page, "Tries to instruct the model", suspicious);
    section(page, "What is odd in the file", report.configuration.warnings.iter().map(|it| one_line(&it.message)));
}

/// A section with these lines; nothing if there are none.
fn section(page: &mut Page, title: &str, lines: impl Iterator<Item = String>) {
    let lines: Vec<String> = lines.collect();
    if lines.is_empty() {
        return;
    }
    let count = page.style(Style::Yellow, &lines.len().to_string());
    page.heading(title, &count);
    for line in lines.iter().take(LINES) {
        page.block(2, line, usize::MAX, None);
    }
    let more = lines.len().saturating_sub(LINES);
    if more > 0 {
        page.line(&format!("  … and {more} more; --json has them all"));
    }
}
