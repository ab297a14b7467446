//! The report in the formats of programs: CSV, JSON, OpenMetrics, InfluxDB and sar, and the tables
//! of older benchmarks.

pub mod csv;
pub mod influx;
pub mod json;
pub mod legacy_tables;
pub mod openmetrics;
pub mod prometheus_text;
pub mod sar;
