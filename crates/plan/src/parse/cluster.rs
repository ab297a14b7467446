//! Parses the data servers of the in-memory server, from a plan or from flags.

use model::units::parse_size;

use crate::parse::document::{Field, Table};
use crate::syntax::cluster::{ClusterPlan, DataServerPlan, DataServersPlan, LayoutsPlan};
use crate::syntax::error::{Fault, PlanError, PlanPosition};
use crate::syntax::limits::{DATA_SERVERS_MAX, MIRRORS_MAX, STRIPE_UNIT};

/// Default size of a stripe unit of the files layout in bytes: a whole READ or WRITE.
const STRIPE_UNIT_BYTES: u32 = 1 << 20;
/// The port of NFS. **Source:** RFC 1813 section 2.1.
const NFS_PORT: u16 = 2049;

/// A key of a cluster as it was written, and its place.
pub type ClusterKey = (String, PlanPosition);

/// The keys of a cluster as they were written.
#[derive(Clone, Debug, Default)]
pub struct ClusterKeys {
    /// A number, or addresses separated by commas.
    pub data_servers: Option<ClusterKey>,
    /// The name of a [`LayoutsPlan`].
    pub layouts: Option<ClusterKey>,
    /// A size, or 0.
    pub stripe_unit: Option<ClusterKey>,
    /// A number.
    pub mirrors: Option<ClusterKey>,
}

/// Parses the data servers of `[server]`; `None` if it has none.
pub(crate) fn read_cluster(table: &Table<'_>) -> Result<Option<ClusterPlan>, PlanError> {
    let key = |field: &Field<'_>| {
        let items = field.items()?;
        let text = |item: &Field<'_>| item.as_text().map_or_else(|| item.shown(), str::to_owned);
        let texts: Vec<String> = items.iter().map(text).collect();
        Ok((texts.join(","), field.place()))
    };
    let keys = ClusterKeys {
        data_servers: table.read("data_servers", key)?,
        layouts: table.read("layouts", key)?,
        stripe_unit: table.read("stripe_unit", key)?,
        mirrors: table.read("mirrors", key)?,
    };
    parse_cluster(&keys)
}

/// Parses the data servers of the in-memory server; `None` without any.
pub fn parse_cluster(keys: &ClusterKeys) -> Result<Option<ClusterPlan>, PlanError> {
    let servers = parse_key("data_servers", keys.data_servers.as_ref(), parse_servers)?;
    let layouts = parse_key("layouts", keys.layouts.as_ref(), parse_layouts)?;
    let stripe_unit = parse_key("stripe_unit", keys.stripe_unit.as_ref(), parse_stripe_unit)?;
    let mirrors = parse_key("mirrors", keys.mirrors.as_ref(), parse_mirrors)?;
    let Some(data_servers) = servers.flatten() else {
        let idle = [
            ("layouts", &keys.layouts),
            ("stripe_unit", &keys.stripe_unit),
            ("mirrors", &keys.mirrors),
        ];
        for (name, key) in idle {
            if let Some((_, place)) = key {
                let fault = Fault::new("has no effect without data servers");
                return Err(fault.hint("set the number of data servers, too").of_key(name, *place));
            }
        }
        return Ok(None);
    };
    let layouts = layouts.unwrap_or(LayoutsPlan::FlexFiles);
    // Linux 6.12 fails reads and writes of flexible files that are striped.
    let usual_unit = if layouts == LayoutsPlan::Files { STRIPE_UNIT_BYTES } else { 0 };
    let cluster = ClusterPlan {
        data_servers,
        layouts,
        stripe_unit_bytes: stripe_unit.unwrap_or(usual_unit),
        mirrors: mirrors.unwrap_or(1),
    };
    if let Some((_, place)) = &keys.mirrors {
        check_mirrors(&cluster).map_err(|fault| fault.of_key("mirrors", *place))?;
    }
    Ok(Some(cluster))
}

fn parse_key<T>(
    name: &str,
    key: Option<&ClusterKey>,
    parse: fn(&str) -> Result<T, Fault>,
) -> Result<Option<T>, PlanError> {
    let Some((text, place)) = key else { return Ok(None) };
    parse(text).map(Some).map_err(|fault| fault.of_key(name, *place))
}

fn check_mirrors(cluster: &ClusterPlan) -> Result<(), Fault> {
    let servers = cluster.data_servers.count();
    if cluster.mirrors as usize > servers {
        let what = format!("{} mirrors need as many data servers, not {servers}", cluster.mirrors);
        return Err(Fault::new(what).hint("each mirror has its own data servers"));
    }
    if cluster.layouts == LayoutsPlan::Files && cluster.mirrors > 1 {
        let fault = Fault::new("the files layout has no mirrors");
        return Err(fault.hint("use layouts flexfiles"));
    }
    Ok(())
}

fn parse_servers(text: &str) -> Result<Option<DataServersPlan>, Fault> {
    if let Ok(count) = text.parse::<u32>() {
        if count > DATA_SERVERS_MAX {
            return Err(Fault::new(format!("must be 0 to {DATA_SERVERS_MAX}, not `{text}`")));
        }
        return Ok((count > 0).then_some(DataServersPlan::Own(count)));
    }
    let servers = text.split(',').map(parse_server).collect::<Result<Vec<_>, _>>()?;
    if servers.len() > DATA_SERVERS_MAX as usize {
        return Err(Fault::new(format!("more than {DATA_SERVERS_MAX} data servers")));
    }
    Ok(Some(DataServersPlan::At(servers)))
}

/// Parses `HOST[:PORT][/EXPORT]`.
fn parse_server(text: &str) -> Result<DataServerPlan, Fault> {
    let wrong = || {
        Fault::new(format!("`{text}` is not a data server"))
            .hint("write a number, or HOST:PORT/EXPORT, such as 10.0.0.1:2049/export")
    };
    let (place, export) = match text.find('/') {
        Some(slash) => (&text[..slash], &text[slash..]),
        None => (text, "/export"),
    };
    let (host, port) = match place.strip_prefix('[').map(|rest| rest.split_once(']')) {
        Some(Some((host, ""))) => (host, None),
        Some(Some((host, port))) => (host, Some(port.strip_prefix(':').ok_or_else(wrong)?)),
        Some(None) => return Err(wrong()),
        None => match place.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (place, None),
        },
    };
    let port = match port {
        Some(port) => port.parse().ok().filter(|port| *port > 0).ok_or_else(wrong)?,
        None => NFS_PORT,
    };
    if host.is_empty() || host.contains(char::is_whitespace) {
        return Err(wrong());
    }
    Ok(DataServerPlan { host: host.to_owned(), port, export: export.to_owned() })
}

fn parse_layouts(text: &str) -> Result<LayoutsPlan, Fault> {
    let named = LayoutsPlan::ALL.into_iter().find(|layouts| layouts.name() == text);
    named.ok_or_else(|| {
        Fault::new(format!("`{text}` is not a type of layouts"))
            .hint("flexfiles, flexfiles-v4.1, flexfiles-tight or files")
    })
}

fn parse_stripe_unit(text: &str) -> Result<u32, Fault> {
    let bytes = parse_size(text)?;
    let is_legal = bytes == 0
        || (STRIPE_UNIT.min..=STRIPE_UNIT.max).contains(&bytes) && bytes.is_multiple_of(4096);
    if is_legal {
        return Ok(bytes as u32);
    }
    let what = format!("must be 0, or a multiple of 4KiB up to 1GiB, not `{text}`");
    Err(Fault::new(what).hint(STRIPE_UNIT.reason))
}

fn parse_mirrors(text: &str) -> Result<u32, Fault> {
    match text.parse() {
        Ok(mirrors) if (1..=MIRRORS_MAX).contains(&mirrors) => Ok(mirrors),
        _ => Err(Fault::new(format!("must be 1 to {MIRRORS_MAX}, not `{text}`"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(data_servers: &str, layouts: &str, mirrors: &str) -> Result<ClusterPlan, String> {
        let key = |text: &str, flag| {
            (!text.is_empty()).then(|| (text.to_owned(), PlanPosition::Flag(flag)))
        };
        let keys = ClusterKeys {
            data_servers: key(data_servers, "--data-servers"),
            layouts: key(layouts, "--layouts"),
            stripe_unit: None,
            mirrors: key(mirrors, "--mirrors"),
        };
        match parse_cluster(&keys) {
            Ok(cluster) => cluster.ok_or_else(String::new),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn parses_addresses_of_data_servers() {
        let server = |host: &str, port, export: &str| DataServerPlan {
            host: host.to_owned(),
            port,
            export: export.to_owned(),
        };
        let cluster = parse("a,b:1,[::1]:2/data,c/x", "files", "").unwrap();
        assert_eq!(
            cluster.data_servers,
            DataServersPlan::At(vec![
                server("a", 2049, "/export"),
                server("b", 1, "/export"),
                server("::1", 2, "/data"),
                server("c", 2049, "/x"),
            ])
        );
        assert_eq!((cluster.layouts, cluster.stripe_unit_bytes), (LayoutsPlan::Files, 1 << 20));
        assert_eq!(parse("0", "", ""), Err(String::new()));
    }

    #[test]
    fn refuses_impossible_clusters() {
        let errors = [
            parse("4", "blocks", ""),
            parse("a:b", "", ""),
            parse("65", "", ""),
            parse("2", "", "3"),
            parse("2", "files", "2"),
            parse("", "", "2"),
        ];
        let errors: Vec<String> = errors.into_iter().map(Result::unwrap_err).collect();
        insta::assert_snapshot!(errors.join("\n"));
    }
}
