//! The points of a figure as a table: the columns that the button of the page saves as CSV.

use super::{Data, Figure};

/// Heads of the columns, and the rows.
pub type Table = (Vec<&'static str>, Vec<Vec<String>>);

/// The points of a figure. Where there is no value, as of a percentile among unanswered queries, a field is empty.
pub fn table(figure: &Figure, data: &Data) -> Table {
    let (x, y) = figure.axes();
    let number = |value: Option<f64>| value.map_or(String::new(), |value| (value + 0.0).to_string());
    match data {
        Data::Curves(points) => {
            let row =
                |of: &ldplayer_results::figures::Point| vec![number(Some(of.x)), number(Some(of.y)), of.of.legend()];
            (vec![x.column, y.column, "curve"], points.iter().map(row).collect())
        }
        Data::Bars(bars) => {
            let rows = bars.iter().map(|bar| vec![bar.name.clone(), bar.n.to_string()]);
            (vec!["what", x.column], rows.collect())
        }
        Data::Boxes(boxes) => {
            let rows = boxes.iter().map(|of| {
                let times = [Some(of.from), Some(of.to)].map(number).into_iter().chain([of.queries.to_string()]);
                times.chain([of.p1, Some(of.p25), Some(of.p50), Some(of.p75), of.p99].map(number)).collect()
            });
            (vec!["from_s", "to_s", "queries", "p1_us", "p25_us", "p50_us", "p75_us", "p99_us"], rows.collect())
        }
        Data::Rates(points) => {
            let rows = points.iter().map(|of| vec![number(Some(of.t)), number(Some(of.percent))]);
            (vec![x.column, y.column], rows.collect())
        }
        Data::Percentiles(points) => {
            let rows = points.iter().map(|of| {
                vec![number(Some(of.from)), number(Some(of.to)), of.queries.to_string(), of.of.legend(), number(of.ms)]
            });
            (vec!["from_s", "to_s", "queries", "percentile", y.column], rows.collect())
        }
        Data::Histogram(buckets) => {
            let rows = buckets.iter().map(|of| vec![number(Some(of.from)), number(Some(of.to)), of.n.to_string()]);
            (vec!["from_ms", "to_ms", "queries"], rows.collect())
        }
    }
}
