//! Names of layers, and sentences on the result of a ladder.
//!
//! Plain text for all formats of the report. Numbers and verdicts come from `stats`; nothing is
//! computed here.

use model::Target;
use model::question::ladder::{Ladder, Layer};
use model::units::{Size, three_digits};
use stats::ladder::{LayerAnalysis, Limit};

use super::PassLayers;
use crate::humanize;
use crate::table::Sheet;

/// Names of the layers in one campaign.
pub(super) struct LayerNames<'s> {
    request: &'s Ladder,
    top: Option<Layer>,
    has_whole: bool,
    /// Transfer size of the data path in question, if one was requested.
    transfer: Option<String>,
    /// True if all TCP connections stay on this host.
    is_loopback: bool,
}

/// The rate of a cluster compared with that of one data server.
pub(super) struct ClusterRatio {
    /// Number of data servers of the cluster.
    pub(super) servers: u32,
    pub(super) times: f64,
    /// The 95 % interval of the ratio.
    pub(super) interval: (f64, f64),
}

/// Compares the last layer with that of one data server; `None` without such a layer.
pub(super) fn cluster_ratio(ladder: &PassLayers<'_, '_>) -> Option<ClusterRatio> {
    const SEED: u64 = 0x636c_7573;
    // Empty calls don't go to data servers.
    if !ladder.pass.is_byte_rate() {
        return None;
    }
    let one = ladder.measured.iter().find(|one| one.layer == Layer::OneDataServer)?;
    let (top, (_, all)) = ladder.measured.last().zip(ladder.rows.last())?;
    if top.layer == one.layer {
        return None;
    }
    let servers = all.run.spec.nfs().data_servers?;
    let compared = stats::compare(&top.times_ns, &one.times_ns, 0.0, SEED)?;
    Some(ClusterRatio { servers, times: compared.ratio, interval: compared.interval })
}

/// Compares the cluster with one data server; `None` if the ladder has no such layer.
pub(super) fn describe_cluster(ladder: &PassLayers<'_, '_>) -> Option<String> {
    let ratio = cluster_ratio(ladder)?;
    let (lo, hi) = ratio.interval;
    Some(format!(
        "{}: {} data servers are {}x one ({}x to {}x), {} of the ideal.",
        ladder.name,
        ratio.servers,
        three_digits(ratio.times),
        three_digits(lo),
        three_digits(hi),
        humanize::percent(ratio.times / f64::from(ratio.servers))
    ))
}

/// Name of a limit in JSON.
pub(super) const fn code(limit: Limit) -> &'static str {
    match limit {
        Limit::Layer(layer) => layer.name(),
        Limit::Processor => "client_processor",
    }
}

impl<'s> LayerNames<'s> {
    pub(super) fn new(sheet: &Sheet<'_>, request: &'s Ladder) -> Self {
        let mut words =
            Self { request, top: None, has_whole: false, transfer: None, is_loopback: true };
        words.has_whole = words.has_layer(Layer::Whole);
        if let Some(top) = request.layers.last() {
            words.top = Some(top.layer);
            if let Some(row) = sheet.rows.iter().find(|row| row.run.spec.target_name == top.target)
                && let Some(bytes) = row.run.spec.transfer_size_bytes
            {
                words.transfer = Some(Size(bytes.into()).to_string());
            }
        }
        for row in &sheet.rows {
            if let Target::Tcp(tcp) = &row.run.spec.target {
                words.is_loopback &=
                    tcp.embedded || model::NfsTarget::new(&tcp.host, "/").is_loopback();
            }
        }
        words
    }

    fn has_layer(&self, layer: Layer) -> bool {
        self.request.layers.iter().any(|placed| placed.layer == layer)
    }

    /// Name of a layer in a table.
    pub(super) fn layer(&self, layer: Layer) -> String {
        let name = match layer {
            Layer::Null => "this program alone",
            Layer::Memory => "copying in memory",
            Layer::Local => "a directory on this host",
            Layer::Disk if self.top == Some(Layer::Disk) => "the directory",
            Layer::Disk => "the server's disk, directly",
            Layer::Tcp => "TCP without RPC",
            Layer::Own => "our server, our client",
            Layer::Server => "the server, our client",
            Layer::Loopback => "mounted on the server",
            Layer::Network => "mounted by the client",
            Layer::Tunnel if !self.has_layer(Layer::Network) => "through a tunnel, our client",
            Layer::Tunnel => "mounted through a tunnel",
            Layer::Whole => "same, server's transfer size",
            Layer::OneDataServer => "same, one data server",
        };
        match (&self.transfer, self.top == Some(layer)) {
            (Some(size), true) => format!("{name}, {size}"),
            _ => name.to_owned(),
        }
    }

    /// Name of the limiting resource in a sentence.
    pub(super) fn limit(&self, limit: Limit) -> String {
        let layer = match limit {
            Limit::Processor => return "the client's CPUs".to_owned(),
            Limit::Layer(layer) => layer,
        };
        if self.has_whole && self.top == Some(layer) {
            return format!("the transfer size of {}", self.transfer.as_deref().unwrap_or("?"));
        }
        let layer = if layer == Layer::Whole { self.top.unwrap_or(layer) } else { layer };
        let name = match layer {
            Layer::Null => "this program itself",
            Layer::Memory => "memory",
            Layer::Local => "the directory here",
            Layer::Disk if self.top == Some(Layer::Disk) => "the directory's file system or disk",
            Layer::Disk => "the server's disk",
            Layer::Tcp if self.is_loopback => "TCP over loopback",
            Layer::Tcp => "the network",
            Layer::Own => "NFS in our client and our server",
            Layer::Server if self.request.network_unknown => "the server or the network to it",
            Layer::Server | Layer::Whole => "the server",
            Layer::Loopback => "the kernel's client and server on one host",
            Layer::Network if self.has_layer(Layer::Server) => "the kernel's client",
            Layer::Network => "the server, the network or the kernel's client",
            Layer::Tunnel => "the tunnel",
            Layer::OneDataServer => "a single data server",
        };
        name.to_owned()
    }

    /// Describes the bottleneck of a pass.
    pub(super) fn answer(&self, ladder: &PassLayers<'_, '_>) -> String {
        let name = &ladder.name;
        let Some(analysis) = &ladder.analysis else {
            // The outermost layer's reason says most about the whole data path.
            let mut why = "fewer than two layers have a usable figure";
            for (_, row) in &ladder.rows {
                why = row.judged.reason().unwrap_or(why);
            }
            return format!("{name}: the bottleneck is unknown: {why}.");
        };
        if !analysis.is_sure() {
            return format!("{name}: {}.", self.describe_doubtful(analysis));
        }
        let limit = self.describe_limit(ladder, analysis);
        format!("{name}: {limit}; {}.", self.describe_gain(ladder, analysis))
    }

    fn describe_limit(&self, ladder: &PassLayers<'_, '_>, analysis: &LayerAnalysis) -> String {
        let what = self.limit(analysis.limit);
        let Limit::Layer(limit) = analysis.limit else {
            let waited = humanize::percent(analysis.waited);
            let quota = if analysis.is_held { ", held back by a quota" } else { "" };
            return format!(
                "{what} are the bottleneck: the client was ready to run but waited for a CPU \
                 {waited} of the time{quota}"
            );
        };
        let share = super::share_of(ladder, limit).unwrap_or(0.0);
        format!("{what} is the bottleneck: it takes {} of the time", humanize::percent(share))
    }

    fn describe_gain(&self, ladder: &PassLayers<'_, '_>, analysis: &LayerAnalysis) -> String {
        let mut per_s = 0.0;
        if let Some((_, row)) = ladder.rows.last()
            && let Some(rate) = &row.judged.rate
        {
            per_s = rate.median;
        }
        let (lo, hi) = analysis.gain_interval;
        let next = match analysis.next {
            Some(next) => format!(", then limited by {}", self.limit(next)),
            None => String::new(),
        };
        format!(
            "if it were infinitely fast, the rate would be about {} instead of {} ({}x; {}x to \
             {}x){next} (confidence {})",
            stats::Rate::for_pass(ladder.pass, per_s * analysis.gain),
            stats::Rate::for_pass(ladder.pass, per_s),
            three_digits(analysis.gain),
            three_digits(lo),
            three_digits(hi),
            humanize::percent(analysis.confidence)
        )
    }

    fn describe_doubtful(&self, analysis: &LayerAnalysis) -> String {
        if analysis.confidence <= 0.0 {
            return format!(
                "inconclusive with one trial of each layer; the bottleneck may be {} (hint: use \
                 more --trials)",
                self.limit(analysis.limit)
            );
        }
        let mut votes = Vec::new();
        for (limit, share) in analysis.votes.iter().take(3) {
            votes.push(format!("{} ({})", self.limit(*limit), humanize::percent(*share)));
        }
        format!(
            "inconclusive: most likely {} (hint: use more --trials, or a quieter machine)",
            votes.join(", ")
        )
    }

    /// Describes layers that contradict the layers they contain, and layers without a result.
    pub(super) fn caveats(&self, sheet: &Sheet<'_>, passes: &[PassLayers<'_, '_>]) -> Vec<String> {
        let mut caveats = Vec::new();
        for ladder in passes {
            let crossed: &[_] = match &ladder.analysis {
                Some(analysis) => &analysis.crossed,
                None => &[],
            };
            for (whole, part) in crossed {
                caveats.push(format!(
                    "{}: `{}` was slower than `{}`, although the latter includes its work. The \
                     cause is a cache or other load on the machine, so the shares of these two are \
                     unreliable.",
                    ladder.name,
                    self.layer(*part),
                    self.layer(*whole)
                ));
            }
            for (layer, row) in &ladder.rows {
                if ladder.measured.iter().any(|measured| measured.layer == *layer) {
                    continue;
                }
                let why = match row.judged.reason() {
                    Some(reason) => reason.lines().next().unwrap_or_default().to_owned(),
                    None => row.codes(),
                };
                caveats.push(format!(
                    "{}: `{}` has no figure: {why}.",
                    ladder.name,
                    self.layer(*layer)
                ));
            }
        }
        if passes.is_empty() && !sheet.rows.is_empty() {
            caveats.push("The bottleneck is unknown: the last layer was not measured.".to_owned());
        }
        caveats
    }

    /// Lists what was not measured.
    pub(super) fn open(&self) -> Vec<String> {
        self.request
            .missing
            .iter()
            .map(|missing| format!("Not measured: {}.", missing.why))
            .collect()
    }
}
