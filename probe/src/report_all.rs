//! The report for programs on all servers of a file.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::file::{Plan, Trouble};
use crate::record::{CallRecord, FailureReport};
use crate::report::Report;
use crate::run::AllEnded;
use crate::toolset_report::{FunctionReport, LeftOutReport, SuspiciousReport};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReportAll<'a> {
    pub(crate) servers: BTreeMap<&'a str, Report<'a>>,
    pub(crate) toolset: &'a [FunctionReport],
    pub(crate) left_out: &'a [LeftOutReport],
    pub(crate) suspicious: &'a [SuspiciousReport],
    pub(crate) calls: Vec<CallReport<'a>>,
    pub(crate) configuration: ConfigurationReport<'a>,
}

#[derive(Serialize)]
pub(crate) struct ConfigurationReport<'a> {
    pub(crate) errors: &'a [Trouble],
    pub(crate) warnings: Vec<&'a Trouble>,
}

#[derive(Serialize)]
pub(crate) struct CallReport<'a> {
    server: Option<&'a str>,
    #[serde(flatten)]
    pub(crate) call: &'a CallRecord,
}

impl<'a> ReportAll<'a> {
    pub(crate) fn new(plan: &'a Plan, ended: &'a AllEnded) -> Self {
        let AllEnded { servers, offered, calls } = ended;
        let mut reports = BTreeMap::new();
        for Trouble { server, message, .. } in &plan.errors {
            let failure = || FailureReport { kind: "configuration".into(), message: String::new() };
            let report = reports.entry(&**server).or_insert_with(|| Report::unopened("failed", Some(failure())));
            if let Some(failure) = &mut report.failure {
                failure.message.push_str(if failure.message.is_empty() { "" } else { "; " });
                failure.message.push_str(message);
            }
        }
        let disabled = plan.configuration.servers.iter().filter(|(_, entry)| !entry.enabled);
        reports.extend(disabled.map(|(server, _)| (&**server, Report::unopened("disabled", None))));
        reports.extend(servers.iter().map(|ended| {
            let report = Report::new(&ended.peer.name, &ended.session, &ended.peer.record, &offered.names);
            (&*ended.peer.name, report)
        }));
        Self {
            servers: reports,
            toolset: &offered.toolset,
            left_out: &offered.left_out,
            suspicious: &offered.suspicious,
            calls: calls.iter().map(|call| CallReport { server: call.server.as_deref(), call }).collect(),
            configuration: ConfigurationReport {
                errors: &plan.errors,
                warnings: plan.warnings.iter().chain(&offered.unmatched).collect(),
            },
        }
    }

    /// Whether every enabled server became ready and every call returned a result.
    pub(crate) fn is_good(&self) -> bool {
        self.servers.values().all(|report| report.outcome == "disabled" || report.is_good())
            && self.calls.iter().all(|call| call.call.is_good())
    }
}
