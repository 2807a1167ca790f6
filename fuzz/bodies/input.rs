//! Interprets bytes as choices.

use std::time::Duration;

use mcp_proto::protocol::Root;
use mcp_proto::protocol::content::Icon;
use mcp_proto::{
    Eras, Keepalive, KeepaliveMethod, KnownEra, ListErrors, LogLevel, Options, ProtocolVersion, Reconnect,
};
use serde_json::value::RawValue;

use super::checks::check_form;

/// Bytes as choices. Printable characters count from `0`, and operations are letters, so that seeds are readable.
pub(super) struct Input<'a>(pub(super) &'a [u8]);

impl<'a> Input<'a> {
    pub(super) fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return b'0' };
        self.0 = rest;
        *first
    }

    pub(super) fn pick(&mut self, of: usize) -> usize {
        usize::from(self.bits()) % of
    }

    pub(super) fn bits(&mut self) -> u8 {
        self.byte().wrapping_sub(b'0')
    }

    pub(super) fn operation(&mut self) -> Option<u8> {
        while let [b' ' | b'\n', rest @ ..] = self.0 {
            self.0 = rest;
        }
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(if first.is_ascii_uppercase() { *first } else { b'a' + first.wrapping_sub(b'a') % 26 })
    }

    pub(super) fn take(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// One of the latest elements, counted from the end.
    pub(super) fn choose<T: Copy>(&mut self, from: &[T]) -> Option<T> {
        let at = self.pick(8);
        from.get(from.len().checked_sub(1)?.saturating_sub(at)).copied()
    }

    pub(super) fn step(&mut self) -> Duration {
        let millis = [0, 1, 100, 300, 1_000, 2_000, 5_000, 30_000, 60_000, 600_000, 7_200_000];
        Duration::from_millis(millis[self.pick(millis.len())])
    }

    pub(super) fn options(&mut self) -> Options {
        let mut options = limits(Options::new("fuzz", "1"));
        let newest = ProtocolVersion::NEWEST_MODERN;
        options.eras = [Eras::Auto, Eras::LegacyFirst, Eras::LegacyOnly, Eras::ModernOnly(newest)][self.pick(4)];
        let offers = self.bits();
        options.capabilities.elicitation = offers & 1 != 0;
        options.capabilities.elicitation_url = offers & 2 != 0;
        options.capabilities.sampling = offers & 4 != 0;
        if offers & 8 != 0 {
            options.capabilities.roots = Some(vec![Root::new("file:///a").with_name("\"\n")]);
        }
        if offers & 16 != 0 {
            options.capabilities.extensions.extend("x/y".parse().map(|id| {
                (
                    id,
                    raw("{
}")
                    .into(),
                )
            }));
        }
        options.capabilities.tasks = offers & 32 != 0;
        let mut quick = Reconnect::default();
        quick.max_losses = 2;
        options.reconnect = [None, Some(Reconnect::default()), Some(quick)][self.pick(3)];
        let tolerance = self.bits();
        options.tolerance.list_errors = if tolerance & 1 == 0 { ListErrors::Fail } else { ListErrors::Degrade };
        options.tolerance.tools_absent = tolerance & 2 != 0;
        options.tolerance.absent_by_text = tolerance & 4 != 0;
        options.tolerance.list_undeclared = tolerance & 8 != 0;
        options.tolerance.undeclared_list_changed = tolerance & 16 != 0;
        options.tolerance.nearest_version = tolerance & 32 != 0;
        let mut closes = KnownEra::new(ProtocolVersion::NEWEST_LEGACY);
        closes.discover_closes = true;
        options.known_era =
            [None, Some(KnownEra::new(ProtocolVersion::V2024_11_05)), Some(closes), Some(KnownEra::new(newest))]
                [self.pick(4)];
        let told = self.bits();
        options.log_level = (told & 1 != 0).then_some(LogLevel::Warning);
        options.listen = told & 4 == 0;
        if told & 8 != 0 {
            options.sampling.per_minute = Some(2);
            options.sampling.max_tokens = Some(100);
            options.sampling.models = vec!["m-1".into(), "m-2".into()];
            options.sampling.tool_rounds = Some(0);
            options.capabilities.sampling_tools = true;
            options.elicitations_per_minute = Some(2);
        }
        if told & 16 != 0 {
            options.sampling.model = Some("m-1".into());
            options.client.title = Some("Fuzz".into());
            options.client.website_url = Some("https://h/".into());
            options.client.icons = vec![Icon::new("https://h/i.png")];
            options.capabilities.experimental.insert("x".into(), raw("{ }"));
            (options.trust, options.form_defaults) = (true, true);
        }
        if told & 32 != 0 {
            (options.sampling.max_tokens, options.sampling.tool_rounds) = (Some(100), Some(0));
        }
        let mut keepalive = Keepalive::default();
        keepalive.method = [KeepaliveMethod::Ping, KeepaliveMethod::ToolsList][self.pick(2)];
        keepalive.discover = true;
        options.keepalive = [None, Some(keepalive)][self.pick(2)];
        options.parallel_tool_calls = self.pick(2) == 0;
        check_form(&options)
    }
}

/// Bounds that a fuzzer can reach.
pub(super) fn limits(mut options: Options) -> Options {
    let limits = &mut options.limits;
    limits.message.bytes = 4096;
    limits.message.depth = 16;
    limits.message.batch = 8;
    limits.pages = 3;
    limits.items = 8;
    limits.list_bytes = 2048;
    limits.in_flight = 6;
    limits.queued = 4;
    limits.server_requests = 2;
    limits.subscriptions = 3;
    limits.held = 3;
    limits.buffered = 4000;
    limits.output = 16;
    limits.output_bytes = 512;
    limits.quirks = 8;
    options
}

pub(super) fn raw(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.into()).unwrap()
}
