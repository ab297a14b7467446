//! The output of `dfsbench k8s`, checked against the fields that Kubernetes publishes.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::cli::Cli;
use crate::jobs::PLAN;

/// Names and types of the fields of all objects used in the manifests.
const FIELDS: &str = include_str!("kubernetes-1.32.json");

type Types = BTreeMap<String, BTreeMap<String, String>>;

fn types() -> Types {
    let all: Value = serde_json::from_str(FIELDS).unwrap();
    serde_json::from_value(all["types"].clone()).unwrap()
}

/// Checks a value against a type; returns the problem and its location.
fn check(types: &Types, value: &Value, wanted: &str, at: &str, wrong: &mut Vec<String>) {
    if let Some(inner) = wanted.strip_prefix("list of ") {
        match value.as_array() {
            Some(items) => items.iter().enumerate().for_each(|(index, item)| {
                check(types, item, inner, &format!("{at}[{index}]"), wrong);
            }),
            None => wrong.push(format!("{at} is no list")),
        }
        return;
    }
    let is_right = match wanted {
        "any" => true,
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "boolean" => value.is_boolean(),
        _ => value.is_object(),
    };
    if !is_right {
        wrong.push(format!("{at} is no {wanted}"));
    }
    let Some(object) = value.as_object().filter(|_| wanted != "any") else { return };
    if let Some(inner) = wanted.strip_prefix("map of ") {
        object.iter().for_each(|(key, it)| check(types, it, inner, &format!("{at}.{key}"), wrong));
        return;
    }
    let Some(fields) = types.get(wanted) else {
        return wrong.push(format!("{at}: the table of fields has no {wanted}"));
    };
    for (key, value) in object {
        match fields.get(key).or_else(|| fields.get(&format!("{key}!"))) {
            Some(inner) => check(types, value, inner, &format!("{at}.{key}"), wrong),
            None => wrong.push(format!("{at} has no field {key}")),
        }
    }
    for needed in fields.keys().filter_map(|key| key.strip_suffix('!')) {
        if !object.contains_key(needed) {
            wrong.push(format!("{at} lacks {needed}"));
        }
    }
}

fn wrong(object: &Value) -> Vec<String> {
    let kind = object["kind"].as_str().unwrap();
    let mut wrong = Vec::new();
    check(&types(), object, kind, kind, &mut wrong);
    wrong
}

fn written(cli: &Cli, more: &[&str]) -> Vec<Value> {
    std::fs::write(cli.folder().join("scan.toml"), PLAN).unwrap();
    let words = ["k8s", "scan.toml", "--image", "registry/dfsbench:0.1", "--agents", "3"];
    let end = cli.run(&[&words[..], more].concat());
    assert_eq!((end.code, end.stderr.as_str()), (0, ""), "{end:?}");
    let list: Value = serde_json::from_str(&end.stdout).unwrap();
    assert_eq!((&list["apiVersion"], &list["kind"]), (&"v1".into(), &"List".into()));
    list["items"].as_array().unwrap().clone()
}

#[test]
fn writes_only_known_manifest_fields() {
    let cli = Cli::new();
    let more = ["--volume", "scratch:/mnt/scratch", "--results-claim", "keep", "--namespace", "io"];
    for objects in [written(&cli, &[]), written(&cli, &more)] {
        let kinds: Vec<&str> = objects.iter().map(|it| it["kind"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["ConfigMap", "Service", "Job", "Job"]);
        for object in &objects {
            assert_eq!(wrong(object), [""; 0]);
        }
    }
    // An error would be found.
    let mut job = written(&cli, &[])[3].clone();
    job["spec"]["template"]["spec"]["containers"][0]["cmd"] = job["spec"]["completions"].clone();
    job["spec"]["completions"] = "3".into();
    job["spec"]["template"]["spec"]["containers"][0].as_object_mut().unwrap().remove("name");
    let at = "Job.spec.template.spec.containers[0]";
    let messages =
        ["Job.spec.completions is no integer".to_owned(), format!("{at} has no field cmd")];
    assert_eq!(wrong(&job), [&messages[..], &[format!("{at} lacks name")]].concat());
}

#[test]
fn uses_image_of_this_version() {
    let cli = Cli::new();
    std::fs::write(cli.folder().join("scan.toml"), PLAN).unwrap();
    let end = cli.run(&["k8s", "scan.toml", "--agents", "3"]);
    assert_eq!((end.code, end.stderr.as_str()), (0, ""), "{end:?}");
    let ours = concat!("\"image\": \"ghcr.io/dfsbench/dfsbench:", env!("CARGO_PKG_VERSION"), "\"");
    assert_eq!(end.stdout.matches(ours).count(), 2, "{}", end.stdout);
    for object in written(&cli, &[]) {
        assert!(!object.to_string().contains("ghcr.io"), "{object}");
    }
}

#[test]
fn indexes_agents_in_manifests() {
    let cli = Cli::new();
    let objects = written(&cli, &["--name", "scan", "--volume", "scratch:/mnt/scratch"]);
    let [plan, service, controller, agents] = &objects[..] else { panic!("{objects:?}") };
    let spec = &agents["spec"];
    assert_eq!(spec["completionMode"], "Indexed");
    assert_eq!((&spec["completions"], &spec["parallelism"]), (&3.into(), &3.into()));
    let pod = &spec["template"]["spec"];
    let container = &pod["containers"][0];
    let env = container["env"].as_array().unwrap();
    let value = |name: &str| env.iter().find(|it| it["name"] == name).unwrap().clone();
    // The controller's pod has a name below that of the service.
    assert_eq!(controller["metadata"]["name"], "scan-controller");
    assert_eq!(controller["spec"]["template"]["spec"]["subdomain"], service["metadata"]["name"]);
    assert_eq!(value("DFSBENCH_MEET")["value"], "scan-controller-0.scan-meet:7411");
    assert_eq!(service["spec"]["selector"], controller["spec"]["template"]["metadata"]["labels"]);
    let secret = &value("DFSBENCH_TOKEN")["valueFrom"]["secretKeyRef"];
    assert_eq!((&secret["name"], &secret["key"]), (&"dfsbench-token".into(), &"token".into()));
    assert_eq!(value("DFSBENCH_SIZE")["value"], "3");
    assert_eq!(container["volumeMounts"][0]["mountPath"], "/mnt/scratch");
    assert_eq!(pod["volumes"][0]["persistentVolumeClaim"]["claimName"], "scratch");
    let listen = &controller["spec"]["template"]["spec"]["containers"][0]["command"];
    assert!(listen.as_array().unwrap().contains(&"0.0.0.0:7411".into()), "{listen}");
    assert!(plan["data"]["plan.toml"].as_str().unwrap().contains("[[workload]]"));
}

#[test]
fn loses_one_agent_without_restart() {
    let cli = Cli::new();
    let objects = written(&cli, &[]);
    let spec = &objects[3]["spec"];
    assert_eq!((&spec["backoffLimit"], &spec["backoffLimitPerIndex"]), (&Value::Null, &0.into()));
    for rule in spec["podFailurePolicy"]["rules"].as_array().unwrap() {
        assert_eq!(rule["action"], "FailIndex", "{rule}");
    }
    // The controller is one pod, which is not restarted either.
    assert_eq!(objects[2]["spec"]["backoffLimit"], 0);
}

#[test]
fn checks_run_flags_after_dashes() {
    let cli = Cli::new();
    let flags = ["--", "--trials", "7", "--file-size=2MiB"];
    let controller = &written(&cli, &flags)[2]["spec"]["template"]["spec"]["containers"][0];
    let command = controller["command"].as_array().unwrap();
    assert_eq!(command[command.len() - 3..], ["--trials", "7", "--file-size=2MiB"]);
    let job = cli.folder().join("job.json");
    std::fs::write(&job, "as it was").unwrap();
    let to_file = ["k8s", "scan.toml", "--agents", "3", "-o", "job.json"];
    for (flags, words) in [
        (&["--trials", "x"][..], "`x`"),
        (&["--no-such-flag"], "--no-such-flag"),
        (&["--results", "r.db"], "--results after `--`: the job sets it itself"),
        (&["other.toml"], "`other.toml` after `--` is not a flag"),
    ] {
        cli.refused(&[&to_file[..], &["--"], flags].concat(), 2, &[words]);
        assert_eq!(std::fs::read_to_string(&job).unwrap(), "as it was");
    }
    let end = cli.run(&to_file);
    assert_eq!((end.code, end.stdout.as_str()), (0, ""), "{end:?}");
    assert!(std::fs::read_to_string(&job).unwrap().contains("FailIndex"));
}

#[test]
fn rejects_invalid_kubernetes_names() {
    let cli = Cli::new();
    std::fs::write(cli.folder().join("scan.toml"), PLAN).unwrap();
    let run = |more: &[&'static str]| {
        [&["k8s", "scan.toml", "--image", "i", "--agents", "3"], more].concat()
    };
    cli.refused(&run(&["--name", "A b"]), 2, &["--name `A b`", "a-z, 0-9 and -"]);
    cli.refused(&run(&["--volume", "scratch"]), 2, &["--volume scratch", "CLAIM:/path"]);
    cli.refused(
        &run(&["--volume", "a:/"]),
        2,
        &["--volume a:/", "root directory comes from its image"],
    );
    let twice = ["--volume", "a:/x", "--volume", "b:/x/"];
    cli.refused(&run(&twice), 2, &["--volume b:/x/", "another volume is already mounted at `/x`"]);
    cli.refused(&run(&["--results-claim", "X"]), 2, &["the claim `X`"]);
    let nameless = ["k8s", "scan.toml", "--image", "", "--agents", "3"];
    cli.refused(&nameless, 2, &["--image is empty"]);
}
