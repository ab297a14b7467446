//! Results files with strange content, and files that are not results files: every command that
//! reads them, and every page, shows them or explains in one sentence why it can't.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;

use crate::cli::{Cli, End, ServedProcess};

const RUN: [&str; 7] = ["run", "null", "--duration", "100ms", "--trials", "1", "--quiet"];
const HOSTILE: &str = "<script>alert(1)</script>";
pub const FORMATS: [&str; 12] = [
    "table",
    "markdown",
    "csv",
    "json",
    "html",
    "bonnie",
    "iozone",
    "seed",
    "openmetrics",
    "influx",
    "sar",
    "trials",
];

/// Creates a results file with a campaign and modifies it with SQL.
pub fn changed(sql: &str) -> Cli {
    let cli = Cli::new();
    let end = cli.run(&RUN);
    assert_eq!(end.code, 0, "{end:?}");
    let db = Connection::open(cli.folder().join("dfsbench.db")).unwrap();
    db.execute_batch("PRAGMA foreign_keys = OFF").unwrap();
    db.execute_batch(sql).unwrap();
    cli
}

/// Returns the pages of a results file: the list, the campaign, and a comparison with itself.
fn pages(cli: &Cli) -> Vec<String> {
    let served = ServedProcess::launch(cli, &["view", "--no-open"]);
    ["", "campaign/1", "compare?before=1&after=1"].map(|page| request(&served.url, page)).to_vec()
}

fn request(url: &str, page: &str) -> String {
    let address = url.trim_start_matches("http://").trim_end_matches('/');
    let (host, token) = address.split_once('/').unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let head = format!("GET /{token}/{page} HTTP/1.1\r\nHost: {host}\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8(answer).unwrap()
}

#[test]
fn escapes_markup_in_names() {
    let cli = changed(&format!(
        "UPDATE campaigns SET name = '{HOSTILE}', command = '{HOSTILE}', tool_version = '{HOSTILE}',
             plan_toml = '# {HOSTILE}';
         UPDATE runs SET target_name = '{HOSTILE}', target = '{HOSTILE}',
             spec_json = json_set(spec_json, '$.target_name', '{HOSTILE}' || run_index);
         UPDATE facts SET value = '{HOSTILE}', source = '{HOSTILE}';
         UPDATE caveats SET evidence = '{HOSTILE}';
         UPDATE cross_checks SET source = '{HOSTILE}';
         INSERT INTO tags (campaign_id, tag) VALUES (1, '{HOSTILE}');
         INSERT INTO notes (campaign_id, written_unix_ms, text) VALUES (1, 0, '{HOSTILE}');
         INSERT INTO caveats (pass_id, code, severity, evidence)
             SELECT id, 'cached', 'degraded', '{HOSTILE}' FROM passes;
         INSERT INTO telemetry (pass_id, host, times_json)
             SELECT id, '{HOSTILE}', '[0,1000000]' FROM passes;
         INSERT INTO metrics (telemetry_id, name, kind, risen, values_json)
             SELECT id, '{HOSTILE}_ns', 'counter', 5, '[0,5]' FROM telemetry;
         UPDATE trials SET state = 'failed', reason = '{HOSTILE}'
             WHERE id = (SELECT max(id) FROM trials)"
    ));
    let page = cli.run(&["report", "--format", "html"]);
    assert_eq!(page.code, 0, "{page:?}");
    for page in pages(&cli).into_iter().chain([page.stdout]) {
        assert!(!page.contains(HOSTILE), "{page}");
        assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"), "{page}");
    }
    let end = cli.run(&["report", "--format", "csv", "--pictures", "pictures"]);
    assert_eq!(end.code, 0, "{end:?}");
    for picture in std::fs::read_dir(cli.folder().join("pictures")).unwrap() {
        let svg = std::fs::read_to_string(picture.unwrap().path()).unwrap();
        assert!(!svg.contains("<script"), "{svg}");
    }
    for format in ["table", "markdown", "json", "junit"] {
        let end = cli.run(&["compare", "1", "1", "--format", format]);
        assert!(matches!(end.code, 0 | 2) && !end.stderr.contains("panicked"), "{end:?}");
        assert!(format != "junit" || !end.stdout.contains("<script"), "{end:?}");
    }
    every_format_is_made(&cli);
}

/// Checks that every report and every other output about the campaign can be made.
fn every_format_is_made(cli: &Cli) {
    let others: [&[&str]; 4] = [&["list"], &["show"], &["show", "--json"], &["show", "--plan"]];
    let reports = FORMATS.map(|format| ["report", "--format", format]);
    let all = reports.iter().map(<[&str; 3]>::as_slice).chain(others);
    for args in all {
        let end = cli.run(args);
        assert!(end.code == 0 && end.stderr.is_empty(), "{args:?}: {end:?}");
        assert!(!end.stdout.is_empty(), "{args:?}");
    }
}

#[test]
fn rejects_views_in_place_of_tables() {
    let endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)";
    let view = format!(
        "ALTER TABLE facts RENAME TO old_facts;
         CREATE VIEW Facts AS {endless} SELECT x AS id, 1 AS campaign_id, NULL AS trial_id,
             'host' AS scope, x AS name, x AS value, '' AS source FROM n"
    );
    let expensive =
        "ALTER TABLE facts ADD COLUMN more TEXT AS (hex(zeroblob(100000000)))".to_owned();
    let table = "ALTER TABLE facts RENAME TO old_facts;
                 CREATE VIRTUAL TABLE facts USING fts5(id, campaign_id, trial_id)"
        .to_owned();
    for (sql, what) in [
        (view, "`facts` is a view instead of a table"),
        (expensive, "the table `facts` has a computed column"),
        (table, "`facts` is not an ordinary table"),
    ] {
        let cli = changed(&sql);
        for args in [
            &["report"][..],
            &["list"],
            &["show"],
            &["compare", "1", "1"],
            &["export", "out"],
            &["view", "--no-open"],
            &["note", "1", "text"],
            &["import", "dfsbench.db", "--results", "new.db"],
        ] {
            cli.refused(args, 2, &["is damaged", what]);
        }
    }
}

#[test]
fn runs_no_trigger_of_other_files() {
    let cli = changed(
        "CREATE TRIGGER planted AFTER INSERT ON notes BEGIN DELETE FROM campaigns; END;
         CREATE VIEW planted_view AS SELECT * FROM campaigns",
    );
    assert_eq!(cli.run(&["note", "1", "text"]).code, 0);
    let list = cli.run(&["list", "--format", "json"]);
    assert_eq!(list.code, 0, "{list:?}");
    assert!(list.stdout.contains("\"complete\""), "{list:?}");
}

#[test]
fn shows_campaign_of_failures() {
    let cli = changed(
        "UPDATE trials SET state = 'failed', reason = 'no route to host';
         DELETE FROM kinds; DELETE FROM samples; DELETE FROM caveats; DELETE FROM cross_checks;
         DELETE FROM scopes; DELETE FROM op_errors; DELETE FROM passes",
    );
    every_format_is_made(&cli);
    let pages = pages(&cli);
    assert!(pages.iter().all(|page| page.starts_with("HTTP/1.1 200 ")), "{pages:?}");
    assert!(pages[1].contains("no route to host"), "{}", pages[1]);
    assert!(pages[2].contains("no usable rows in common"), "{}", pages[2]);
}

#[test]
fn reports_file_without_campaign() {
    let cli = changed("SELECT 1");
    assert_eq!(cli.run(&["rm", "1", "--really", "1"]).code, 0);
    assert_eq!(cli.run(&["list"]).stdout, "no campaigns\n");
    let served = ServedProcess::launch(&cli, &["view", "--no-open"]);
    assert!(request(&served.url, "").contains("No campaigns yet"));
    assert!(request(&served.url, "campaign/1").starts_with("HTTP/1.1 404 "));
    drop(served);
    for args in [&["report"][..], &["show"], &["compare", "last", "last"], &["factors", "last"]] {
        cli.refused(args, 2, &["has no campaigns yet", "hint"]);
    }
    assert_eq!(cli.run(&["export", "out"]).code, 0);
    let page = cli.run(&["report", "--format", "html"]);
    assert_eq!((page.code, page.stdout.as_str()), (2, ""));
}

#[test]
fn rejects_files_that_are_no_results() {
    type Make = fn(&Path);
    let make: [(&str, Make); 4] = [
        ("another program", |path| {
            Connection::open(path).unwrap().execute_batch("CREATE TABLE apples (n)").unwrap();
        }),
        ("not a dfsbench results file", |path| {
            std::fs::write(path, "a shopping list, and quite a long one, with apples").unwrap();
        }),
        ("is empty", |path| std::fs::write(path, "").unwrap()),
        ("not a file", |path| std::fs::create_dir(path).unwrap()),
    ];
    for (why, make) in make {
        let cli = Cli::new();
        make(&cli.folder().join("dfsbench.db"));
        for args in [
            &["view", "--no-open"][..],
            &["list"],
            &["show"],
            &["report", "--format", "html"],
            &["compare", "1", "2"],
            &["export", "out"],
            &["rm", "1", "--really", "1"],
            &["import", "dfsbench.db", "--results", "new.db"],
        ] {
            cli.refused(args, 2, &["dfsbench.db", why]);
        }
    }
}

#[test]
fn reports_truncated_file_as_damaged() {
    let cli = changed("SELECT 1");
    let path = cli.folder().join("dfsbench.db");
    let whole = std::fs::read(&path).unwrap();
    for share in [2, 3, 10] {
        std::fs::write(&path, &whole[..whole.len() / share]).unwrap();
        for args in [&["report", "--format", "html"][..], &["show"], &["export", "out"]] {
            cli.refused(args, 2, &["dfsbench.db"]);
        }
    }
}

#[test]
fn reports_page_that_cannot_be_served() {
    let cli = changed("SELECT 1");
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    cli.refused(&["view", "--no-open", "--port", &port], 3, &[&port, "--port 0"]);
    // No user, not even root, can create files there.
    let page = ["report", "--format", "html", "--output", "/proc/page.html"];
    cli.refused(&page, 3, &["/proc/page.html", "hint"]);
    cli.refused(&["report", "--pictures", "/proc/pictures"], 3, &["/proc/pictures", "hint"]);
    cli.refused(&["export", "/proc/out"], 3, &["/proc/out"]);
    cli.refused(&["export", "no/such/out"], 3, &["no/such/out", "hint"]);
    let mut view = cli.command(&["view", "--no-open"]);
    let end = End::from_output(view.env("TMPDIR", "/proc").output().unwrap());
    assert_eq!((end.code, end.stderr.matches("error: ").count()), (3, 1), "{end:?}");
    assert!(end.stderr.contains("TMPDIR") && end.stdout.is_empty(), "{end:?}");
}
