//! Tests the counters of every built-in recipe by running its command on prepared output.
//!
//! The numbers are those that typically break counters: above 2^31 (mawk prints no larger
//! integers), 2^32 and 2^53 (where doubles lose odd numbers).

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;
use std::thread;

use model::action::{CommandContext, SystemCounters};
use model::system::{FilledRecipe, Places, Recipe};
use plan::{RECIPES, built_in_recipe, parse_recipe};

use crate::actions::LabAction as _;

const LARGE: [u64; 4] = [(1 << 31) + 1, (1 << 32) + 1, (1 << 53) + 1, 1 << 62];

/// Fills in a recipe for one host whose folders are in `dir`.
fn fill_in(recipe: &Recipe, dir: &Path) -> FilledRecipe {
    let dir = dir.display().to_string();
    let mut roles = BTreeMap::new();
    for role in recipe.roles.keys() {
        roles.insert(role.clone(), vec![0]);
    }
    let places = Places {
        storage: format!("{dir}/storage"),
        dir,
        hosts: vec!["192.0.2.1".to_owned()],
        servers: 1,
        roles,
        way: None,
        clients: String::new(),
        point: "/mnt".to_owned(),
    };
    recipe.fill_in(&[], &places).unwrap()
}

/// Creates a program that prints a fixed text, no matter how it is called.
fn plant_program(dir: &Path, name: &str, text: &str) {
    let path = dir.join("bin").join(name);
    fs::create_dir_all(dir.join("bin")).unwrap();
    fs::write(&path, format!("#!/bin/sh\ncat <<'END'\n{text}END\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Creates `gluster`, whose volume profile shows two bricks with these counts.
fn plant_glusterfs(dir: &Path, counts: [u64; 2]) {
    let text = counts.map(|count| {
        format!(
            "Brick: 192.0.2.1:/brick{count}\n------------------------------\nCumulative Stats:\n   \
             Block Size:              65536b+ \n No. of Reads:                    7 \n\
             No. of Writes:                  100 \n \
             %-latency   Avg-latency   Min-Latency   Max-Latency   No. of calls         Fop\n \
             ---------   -----------   -----------   -----------   ------------        ----\n      \
             0.00       0.00 us       0.00 us       0.00 us             11     RELEASE\n     \
             12.11     260.46 us      90.00 us     800.00 us   {count:>12}      CREATE\n \n    \
             Duration: 12 seconds\n   Data Read: {count} bytes\nData Written: {count} bytes\n \n"
        )
    });
    plant_program(dir, "gluster", &text.concat());
}

/// Simulates two chunk servers with these numbers in `/proc/PID/io`.
fn plant_moosefs(dir: &Path, counts: [u64; 2]) {
    let text = counts.map(|count| {
        format!(
            "rchar: {count}\nwchar: {count}\nsyscr: 3\nsyscw: 4\nread_bytes: 5\nwrite_bytes: 6\n\
             cancelled_write_bytes: 0\n"
        )
    });
    plant_program(dir, "pgrep", "1\n2\n");
    fs::write(dir.join("io"), text.concat()).unwrap();
    // The recipe calls `cat` with the paths of two processes.
    let script = format!("#!/bin/sh\nexec /bin/cat '{}'\n", dir.join("io").display());
    fs::write(dir.join("bin/cat"), script).unwrap();
    fs::set_permissions(dir.join("bin/cat"), fs::Permissions::from_mode(0o755)).unwrap();
}

/// Simulates two OSDs and a metadata server that answer on their sockets.
fn plant_cephfs(dir: &Path, counts: [u64; 2]) {
    fs::create_dir_all(dir.join("run")).unwrap();
    let osd =
        |count| format!(r#"{{"osd": {{"op_r_out_bytes": {count}, "op_w_in_bytes": {count}}}}}"#);
    let mds = |count| {
        format!(
            r#"{{"mds_server": {{"req_create_latency": {{"avgcount": {count}, "sum": 0.5}}}}}}"#
        )
    };
    let [first, second] = counts;
    let sockets = [
        ("osd.0.7", osd(first)),
        ("osd.1.8", osd(second)),
        ("mds.a.9", mds(first)),
        ("mds.b.10", mds(second)),
    ];
    for (name, text) in sockets {
        let socket = UnixListener::bind(dir.join("run").join(format!("{name}.asok"))).unwrap();
        thread::spawn(move || {
            let (mut client, _) = socket.accept().unwrap();
            let mut asked = [0; 24];
            client.read_exact(&mut asked).unwrap();
            let size = u32::try_from(text.len()).unwrap().to_be_bytes();
            client.write_all(&[&size[..], text.as_bytes()].concat()).unwrap();
        });
    }
}

/// Runs a recipe's command with the fake programs in its PATH.
fn read(recipe: &Recipe, dir: &Path) -> Result<BTreeMap<String, String>, String> {
    let filled = fill_in(recipe, dir);
    for file in &filled.hosts[0].files {
        fs::write(&file.path, &file.text).unwrap();
    }
    let [(0, command)] = &filled.counters[..] else { panic!("{}", recipe.name) };
    let bin = dir.join("bin").display().to_string();
    let beside = ["sh", "-c", "PATH=$0:$PATH exec \"$@\"", bin.as_str()].map(str::to_owned);
    let run = beside.into_iter().chain(command.iter().cloned()).collect();
    let context = CommandContext::default();
    let counters = SystemCounters { system: recipe.name.clone(), context, run };
    let read = counters.check(&counters.assume()).map_err(|error| error.to_string())?;
    Ok(read.facts.into_iter().map(|fact| (fact.name, fact.value)).collect())
}

#[test]
fn large_counters_are_exact() {
    let has_python = Command::new("python3").arg("--version").output().is_ok();
    assert!(has_python, "the recipe of cephfs needs python3");
    let mut counted = Vec::new();
    for (name, text) in RECIPES {
        let recipe = parse_recipe(text, name).unwrap();
        if recipe.counters.is_none() {
            continue;
        }
        counted.push(name);
        for pair in LARGE.windows(2) {
            let counts = [pair[0], pair[1]];
            let dir = tempfile::tempdir().unwrap();
            let mut names = vec!["creates", "read_bytes", "written_bytes"];
            match name {
                "glusterfs" => plant_glusterfs(dir.path(), counts),
                "cephfs" => plant_cephfs(dir.path(), counts),
                "moosefs" => {
                    plant_moosefs(dir.path(), counts);
                    names.remove(0);
                }
                _ => panic!("plant the output that the counters of {name} are read from"),
            }
            let sum = (counts[0] + counts[1]).to_string();
            let expected: Vec<_> =
                names.iter().map(|name| ((*name).to_owned(), sum.clone())).collect();
            let read = read(&recipe, dir.path()).unwrap();
            assert_eq!(read.into_iter().collect::<Vec<_>>(), expected, "{name}");
        }
    }
    assert_eq!(counted, ["cephfs", "glusterfs", "moosefs"]);
}

#[test]
fn fails_if_gluster_fails() {
    let recipe = parse_recipe(built_in_recipe("glusterfs").unwrap(), "").unwrap();
    let dir = tempfile::tempdir().unwrap();
    plant_program(dir.path(), "gluster", "");
    // Bricks that haven't created any file yet have no line for it.
    assert_eq!(read(&recipe, dir.path()).unwrap()["creates"], "0");
    let gluster = dir.path().join("bin/gluster");
    fs::write(gluster, "#!/bin/sh\necho 'Connection failed' >&2\nexit 1\n").unwrap();
    let error = read(&recipe, dir.path()).unwrap_err();
    assert!(error.contains("Connection failed"), "{error}");
}
