//! Exports the report in machine-readable formats: CSV, JSON, OpenMetrics, InfluxDB and sar, and
//! the tables of older benchmarks.

pub(crate) mod csv;
pub(crate) mod influx;
pub(crate) mod json;
pub(crate) mod junit;
pub(crate) mod legacy_tables;
pub(crate) mod openmetrics;
pub(crate) mod prometheus_text;
pub(crate) mod sar;
