//! The figures of a run's page: a row for each, from which follow the page, what its buttons save, files for papers, and the list in docs/report.md.

mod charts;
mod table;

use std::collections::BTreeMap;

use ldplayer_results::figures::{Bar, Box5, Bucket, Curve, Figures, LatencyPoint, LatencySlices, Point, RatePoint};
use ldplayer_results::{RunReport, words};
use serde::Serialize;

use crate::axis::{Axis, Scale};

pub(crate) use charts::chart;
pub(crate) use table::table;

/// The section of the page that a figure is in, by the question that it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Section {
    /// What did users see? Only of a run whose clients react.
    Users,
    /// What did the server do?
    Server,
    /// How were connections used? Only of a run that opened some.
    Connections,
    /// What did both ends use?
    Usage,
    /// Was the replay faithful? Not of a run without times.
    Replay,
}

/// What a run must have so that its page has a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Needs {
    /// Nothing.
    Nothing,
    /// Answers that were compared.
    Compared,
    /// A server that was watched.
    Watched,
    /// Clients that react.
    Lookups,
}

/// How a figure is drawn.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Look {
    /// Curves over two axes.
    Curves {
        /// The horizontal axis.
        x: Axis,
        /// The vertical axis.
        y: Axis,
    },
    /// A bar for each count of so many `label`.
    Bars {
        /// What is counted.
        label: &'static str,
    },
    /// By code of its own in `report.js` and `figures/charts.rs`.
    Own {
        /// The horizontal axis.
        x: Axis,
        /// The vertical axis.
        y: Axis,
    },
}

/// A figure of the page.
#[derive(Clone, Copy, Serialize)]
pub struct Figure {
    /// The word for programs: of the element of the page, its data, and the files it is saved as.
    pub id: &'static str,
    /// Where it stands.
    pub section: Section,
    /// Whether it takes the whole width.
    pub is_wide: bool,
    /// What the run must have for it.
    #[serde(skip)]
    pub needs: Needs,
    /// Its title.
    pub title: &'static str,
    /// What stands behind the title.
    pub caption: &'static str,
    /// What is said where there is nothing to draw; empty for the usual words.
    pub none: &'static str,
    /// What only the documentation says.
    #[serde(skip)]
    pub more: &'static str,
    /// How it is drawn.
    pub look: Look,
    /// What it is drawn of.
    #[serde(skip)]
    pub data: fn(&RunReport, &Figures) -> Data,
}

impl Figure {
    /// Title and caption as one text.
    pub(crate) fn words(&self) -> String {
        format!("{} {}", self.title, self.caption).trim().to_owned()
    }

    /// Both axes; of bars the second is that of their rows.
    pub(crate) fn axes(&self) -> (Axis, Axis) {
        match self.look {
            Look::Curves { x, y } | Look::Own { x, y } => (x, y),
            Look::Bars { label } => (Axis::new(label, label, Scale::Count), Axis::new("", "what", Scale::Count)),
        }
    }
}

/// What a figure is drawn of.
#[derive(Clone, Serialize)]
#[serde(untagged)]
pub enum Data {
    /// Points of curves.
    Curves(Vec<Point>),
    /// Counts.
    Bars(Vec<Bar>),
    /// Boxes with whiskers.
    Boxes(Vec<Box5>),
    /// Rates of stretches of time.
    Rates(Vec<RatePoint>),
    /// Percentiles of latency.
    Percentiles(Vec<LatencyPoint>),
    /// Bars of a histogram.
    Histogram(Vec<Bucket>),
}

/// What is said of a run that is too short.
const TOO_SHORT: &str = "The run is too short for a figure over time.";

/// Curves over time, per second or as they were.
const fn over_time(label: &'static str, column: &'static str, scale: Scale) -> Look {
    Look::Curves { x: Axis::TIME, y: Axis::new(label, column, scale) }
}

/// Curves of what both ends used over time.
const fn usage(label: &'static str, column: &'static str, scale: Scale) -> Look {
    Look::Curves { x: Axis::USAGE_TIME, y: Axis::new(label, column, scale) }
}

const CUMULATIVE_LATENCY: Look = Look::Curves { x: Axis::LATENCY, y: Axis::QUERIES };

/// What a row need not say.
const FIGURE: Figure = Figure {
    id: "",
    section: Section::Server,
    is_wide: false,
    needs: Needs::Nothing,
    title: "",
    caption: "",
    none: "",
    more: "",
    look: Look::Own { x: Axis::TIME, y: Axis::LATENCY },
    data: |_, _| Data::Curves(Vec::new()),
};

/// All of them, as the page has them.
pub const FIGURES: &[Figure] = &[
    Figure {
        id: "lookup_time",
        section: Section::Users,
        needs: Needs::Lookups,
        title: "Time of a lookup.",
        caption: "Share of lookups answered within a time, from the first attempt to the answer that the client takes, and of attempts, each by itself: what the server took.",
        none: "Nothing was answered.",
        look: CUMULATIVE_LATENCY,
        data: |_, figures| Data::Curves(figures.lookup_time.clone()),
        ..FIGURE
    },
    Figure {
        id: "attempts_time",
        section: Section::Users,
        needs: Needs::Lookups,
        title: "Load by first attempts and by retries.",
        caption: "Packets that clients sent, by second.",
        look: over_time("per second", "per_second", Scale::Count),
        data: |_, figures| Data::Curves(figures.attempts_time.clone()),
        ..FIGURE
    },
    Figure {
        id: "throughput",
        is_wide: true,
        title: "Queries and answers per second.",
        none: TOO_SHORT,
        more: "A last interval that is not over is not drawn. In this figure and the others per second an interval is 1 s, and 0.1 s, 10 ms or 1 ms in runs of less than five of the longer ones.",
        look: over_time("per second", "per_second", Scale::Count),
        data: |_, figures| Data::Curves(figures.throughput.clone()),
        ..FIGURE
    },
    Figure {
        id: "rcodes",
        is_wide: true,
        title: "Responses by code,",
        caption: "and queries without a response.",
        look: Look::Bars { label: "queries" },
        data: |_, figures| Data::Bars(figures.rcodes.clone()),
        ..FIGURE
    },
    Figure {
        id: "rcodes_time",
        title: "Response codes over the run.",
        caption: "Answers by when their query was sent.",
        none: "The run is too short for a figure over time, or nothing was answered.",
        more: "The seven most frequent codes have a curve each, the others share one.",
        look: over_time("answers per second", "answers_per_second", Scale::Count),
        data: |_, figures| Data::Curves(figures.rcodes_time.clone()),
        ..FIGURE
    },
    Figure {
        id: "without_time",
        title: "Queries without an answer over the run,",
        caption: "by when they were sent. Only what there was is drawn.",
        none: "Nothing to show: no query timed out, failed or was left unsent, or the run is too short for a figure over time.",
        more: "Timed out, failed and not sent; what was not sent by when it was due.",
        look: over_time("queries per second", "queries_per_second", Scale::Count),
        data: |_, figures| Data::Curves(figures.without_time.clone()),
        ..FIGURE
    },
    Figure {
        id: "latency_time",
        is_wide: true,
        title: "Latency over the run.",
        caption: "From sent to answered. A curve stops where its percentile falls among unanswered queries.",
        more: "Median, 90th and 99th percentile, each of slices that are as wide as it needs (below).",
        data: |_, figures| Data::Percentiles(figures.latency_time.clone()),
        ..FIGURE
    },
    Figure {
        id: "latency_tail",
        title: "Latency of the slowest.",
        caption: "How long the slowest x % of the queries took at least; unanswered ones count as endless.",
        more: "From sending and from due time, and by transport where there were several.",
        look: Look::Curves { x: Axis::SLOWEST, y: Axis::LATENCY },
        data: |_, figures| Data::Curves(figures.latency_tail.clone()),
        ..FIGURE
    },
    Figure {
        id: "latency_histogram",
        title: "Histogram of latency.",
        caption: "Answered queries, from sent, in bars of equal width on a logarithmic axis.",
        none: "Nothing to show: no query was answered.",
        more: "Twenty bars a decade.",
        look: Look::Own { x: Axis::LATENCY, y: Axis::new("queries", "queries", Scale::Count) },
        data: |_, figures| Data::Histogram(figures.latency_histogram.clone()),
        ..FIGURE
    },
    Figure {
        id: "latency_activity",
        is_wide: true,
        title: "Latency by client activity.",
        caption: "Share of queries answered within a time, by how many queries their client has in the trace. A few busy clients send most queries and find connections open; the others show what most clients feel.",
        more: "Of clients with 1, 2 to 10, 11 to 100 and more queries, and of the busiest 1 % of the clients.",
        look: CUMULATIVE_LATENCY,
        data: |_, figures| Data::Curves(figures.latency_activity.clone()),
        ..FIGURE
    },
    Figure {
        id: "compared_time",
        is_wide: true,
        needs: Needs::Compared,
        title: "Answers compared, per second.",
        caption: "Queries by the second in which they were due: the answer says the same as the expected one (match), is better or worse than that, or says something else (changed). A query without an answer is worse.",
        more: "Only where answers were [compared](compare-answers.md); a table counts them by field.",
        look: over_time("queries per second", "queries_per_second", Scale::Count),
        data: |_, figures| Data::Curves(figures.compared_time.clone()),
        ..FIGURE
    },
    Figure {
        id: "mbps_time",
        is_wide: true,
        title: "Mbit/s of DNS messages.",
        caption: "Queries sent and accepted responses, without the headers below DNS.",
        none: TOO_SHORT,
        look: over_time("Mbit/s", "Mbit_per_s", Scale::Short),
        data: |_, figures| Data::Curves(figures.mbps_time.clone()),
        ..FIGURE
    },
    Figure {
        id: "connections_time",
        section: Section::Connections,
        is_wide: true,
        title: "Active connections.",
        caption: "Connections of all clients that are open, idle ones included, and sockets of this network namespace in TIME_WAIT: each keeps a port from use for a minute.",
        more: "Where several samples share a point, the highest is shown.",
        look: over_time("connections", "connections", Scale::Count),
        data: |_, figures| Data::Curves(figures.connections_time.clone()),
        ..FIGURE
    },
    Figure {
        id: "handshakes",
        section: Section::Connections,
        is_wide: true,
        title: "Connections per second.",
        caption: "New ones, those of them whose TLS session is resumed, those that failed to come up, and those closed.",
        look: over_time("connections per second", "connections_per_second", Scale::Count),
        data: |_, figures| Data::Curves(figures.handshakes.clone()),
        ..FIGURE
    },
    Figure {
        id: "latency_connections",
        section: Section::Connections,
        is_wide: true,
        title: "Latency by connection.",
        caption: "Share of queries answered within a time, by transport and by whether the query came with a new connection, with one whose session is resumed, or found one open.",
        look: CUMULATIVE_LATENCY,
        data: |_, figures| Data::Curves(figures.latency_connections.clone()),
        ..FIGURE
    },
    Figure {
        id: "closes",
        section: Section::Connections,
        is_wide: true,
        title: "Who closed connections,",
        caption: "and why.",
        look: Look::Bars { label: "connections" },
        data: |report, _| Data::Bars(closes(report)),
        ..FIGURE
    },
    Figure {
        id: "cpu_time",
        section: Section::Usage,
        is_wide: true,
        title: "Processor.",
        caption: "Cores used by the replay, and by the server's processes with their children where they were watched. A replay of high precision spins: it uses all of a core for each worker by design.",
        look: usage("cores", "cores", Scale::Short),
        data: |_, figures| Data::Curves(figures.cpu_time.clone()),
        ..FIGURE
    },
    Figure {
        id: "memory_time",
        section: Section::Usage,
        is_wide: true,
        title: "Memory.",
        caption: "RSS counts memory that processes share in each of them, PSS once. That of the kernel is of all sockets of the machine.",
        look: usage("memory", "bytes", Scale::Bytes),
        data: |_, figures| Data::Curves(figures.memory_time.clone()),
        ..FIGURE
    },
    Figure {
        id: "server_sockets",
        section: Section::Usage,
        needs: Needs::Watched,
        title: "TCP sockets of the server",
        caption: "by state, on the ports that were asked; those that listen left out.",
        none: "No TCP socket was on the ports that were asked.",
        look: usage("sockets", "sockets", Scale::Count),
        data: |_, figures| Data::Curves(figures.server_sockets.clone()),
        ..FIGURE
    },
    Figure {
        id: "client_sockets",
        section: Section::Usage,
        title: "TCP sockets of the clients",
        caption: "by state, connected to the ports that were asked.",
        none: "No TCP socket was connected to the ports that were asked.",
        look: usage("sockets", "sockets", Scale::Count),
        data: |_, figures| Data::Curves(figures.client_sockets.clone()),
        ..FIGURE
    },
    Figure {
        id: "losses_time",
        section: Section::Usage,
        is_wide: true,
        title: "Losses per second:",
        caption: "datagrams dropped for lack of buffer, connections lost at listening sockets, TCP segments sent again. Only what there was is drawn.",
        none: "Nothing was lost, as far as it was read: no datagram was dropped, no connection lost while listening, no segment sent again.",
        look: usage("per second", "per_second", Scale::Count),
        data: |_, figures| Data::Curves(figures.losses_time.clone()),
        ..FIGURE
    },
    Figure {
        id: "traffic_time",
        section: Section::Usage,
        title: "Bytes per second",
        caption: "of IP packets, by network namespace, loopback included.",
        look: usage("bytes per second", "bytes_per_second", Scale::Bytes),
        data: |_, figures| Data::Curves(figures.traffic_time.clone()),
        ..FIGURE
    },
    Figure {
        id: "switches_time",
        section: Section::Usage,
        title: "Context switches per second.",
        caption: "A thread waited for something, or its core was given to another.",
        look: usage("per second", "switches_per_second", Scale::Count),
        data: |_, figures| Data::Curves(figures.switches_time.clone()),
        ..FIGURE
    },
    Figure {
        id: "boxes",
        section: Section::Replay,
        is_wide: true,
        title: "Timing error over the run.",
        caption: "Sent − due: box = quartiles, line = median, whiskers = 1st to 99th percentile of a slice of the run.",
        more: "Sixty slices, or fewer and wider ones (below).",
        look: Look::Own { x: Axis::TIME, y: Axis::ERROR },
        data: |_, figures| Data::Boxes(figures.boxes.clone()),
        ..FIGURE
    },
    Figure {
        id: "error_cdf",
        section: Section::Replay,
        title: "Timing error, all queries.",
        caption: "Share of queries sent no later than this against their due time.",
        more: "The axis is linear within ±10 µs and logarithmic outside.",
        look: Look::Curves { x: Axis::ERROR, y: Axis::QUERIES },
        data: |_, figures| Data::Curves(figures.error_cdf.clone()),
        ..FIGURE
    },
    Figure {
        id: "gaps",
        section: Section::Replay,
        title: "Gaps between queries.",
        caption: "Recorded against replayed; the curves should lie on each other. Equal times are drawn at 100 ns.",
        look: Look::Curves {
            x: Axis::new("gap to the query before", "gap_s", Scale::Gap),
            y: Axis::new("gaps (%)", "gaps_percent", Scale::Percent),
        },
        data: |_, figures| Data::Curves(figures.gaps.clone()),
        ..FIGURE
    },
    Figure {
        id: "rate",
        section: Section::Replay,
        title: "Rate difference by second.",
        caption: "(sent − due) ÷ due; dashed: ±0.1 %. In long runs each point is the worst of several seconds.",
        none: TOO_SHORT,
        more: "Without a last second in whose midst the trace ends.",
        look: Look::Own { x: Axis::TIME, y: Axis::new("rate difference (%)", "rate_difference_percent", Scale::Short) },
        data: |_, figures| Data::Rates(figures.rate.clone()),
        ..FIGURE
    },
    Figure {
        id: "rate_cdf",
        section: Section::Replay,
        title: "Rate difference, all windows.",
        caption: "Share of windows at or below it, in windows of 1 s and 0.1 s.",
        none: "The run is too short for whole windows.",
        more: "Without a last window in whose midst the trace ends.",
        look: Look::Curves { x: Axis::DIFFERENCE, y: Axis::new("windows (%)", "windows_percent", Scale::Percent) },
        data: |_, figures| Data::Curves(figures.rate_cdf.clone()),
        ..FIGURE
    },
];

/// The figures of a run by section.
pub fn by_section(report: &RunReport) -> BTreeMap<Section, Vec<Figure>> {
    let summary = &report.summary;
    let has = |needs| match needs {
        Needs::Nothing => true,
        Needs::Compared => summary.answers_compared.is_some(),
        Needs::Watched => summary.telemetry.server.is_some(),
        Needs::Lookups => summary.lookups.is_some(),
    };
    let mut sections: BTreeMap<Section, Vec<Figure>> = BTreeMap::new();
    for figure in FIGURES.iter().filter(|figure| has(figure.needs)) {
        sections.entry(figure.section).or_default().push(*figure);
    }
    sections
}

/// What the figures of a run are drawn of, by their ids.
pub fn data(report: &RunReport, figures: &Figures) -> BTreeMap<&'static str, Data> {
    FIGURES.iter().map(|figure| (figure.id, (figure.data)(report, figures))).collect()
}

/// The legends of all curves of a run, by their keys: curves of one key have one legend in every figure.
pub fn legends(data: &BTreeMap<&'static str, Data>, slices: &[LatencySlices]) -> BTreeMap<String, String> {
    let of = |data: &Data| -> Vec<Curve> {
        match data {
            Data::Curves(points) => points.iter().map(|point| point.of).collect(),
            Data::Percentiles(points) => points.iter().map(|point| point.of).collect(),
            _ => Vec::new(),
        }
    };
    let mut curves: Vec<Curve> = data.values().flat_map(of).chain(slices.iter().map(|slices| slices.of)).collect();
    // Points of a curve stand together.
    curves.dedup();
    curves.into_iter().map(|curve| (curve.key(), curve.legend())).collect()
}

/// Who closed connections, the most frequent first.
fn closes(report: &RunReport) -> Vec<Bar> {
    let bar = |(key, &n): (&String, &u64)| Bar {
        key: key.clone(),
        name: words::closed(key),
        n,
        answered: key.starts_with("client"),
    };
    let mut bars: Vec<Bar> = report.summary.connections.closed.iter().map(bar).collect();
    bars.sort_by_key(|bar| std::cmp::Reverse(bar.n));
    bars
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADS: [(Section, &str); 5] = [
        (Section::Users, "Of a run with [clients that react](clients.md):"),
        (Section::Server, "Of the server:"),
        (Section::Connections, "Of a run with connections (see [transports](transports.md)):"),
        (Section::Usage, "Of what both ends used:"),
        (Section::Replay, "Of the replay, unless nothing was due at any time (`--timing fast`):"),
    ];

    fn list() -> String {
        let of = |(section, head): (Section, &str)| {
            let lines = FIGURES.iter().filter(|figure| figure.section == section).map(|figure| {
                let parts = [figure.caption, figure.more].into_iter().filter(|part| !part.is_empty());
                let text: Vec<&str> = parts.collect();
                format!("- `{}`: **{}** {}", figure.id, figure.title, text.join(" ")).trim_end().to_owned()
            });
            format!("{head}\n\n{}\n", lines.collect::<Vec<_>>().join("\n"))
        };
        HEADS.map(of).join("\n")
    }

    /// Prints the list, to be put there, where the documentation has another.
    #[test]
    fn the_documentation_lists_the_figures() {
        let page = include_str!("../../../docs/report.md");
        assert!(page.contains(&list()), "docs/report.md lacks this list of figures:\n{}", list());
    }

    #[test]
    fn every_figure_has_an_id_of_its_own_and_a_title() {
        let mut ids: Vec<&str> = FIGURES.iter().map(|figure| figure.id).collect();
        assert!(FIGURES.iter().all(|figure| !figure.id.is_empty() && !figure.title.is_empty()));
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), FIGURES.len());
    }

    /// The code of those that are drawn by their own, and of no other.
    #[test]
    fn figures_with_code_of_their_own_have_it() {
        let script = include_str!("../assets/report.js");
        for figure in FIGURES {
            let has_code = script.contains(&format!("draw(\"{}\"", figure.id));
            assert_eq!(has_code, matches!(figure.look, Look::Own { .. }), "{}", figure.id);
        }
    }
}
