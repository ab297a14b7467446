//! `dfsbench k8s`: manifests that run a plan's campaign.
//!
//! The manifests are a list of four objects: the plan, a headless Service that makes the controller
//! reachable, the controller, and the agents. The last two are Indexed Jobs, whose pods have
//! predictable names and indexes. The token is read from a Secret by name and never written here.
//!
//! **Source:** Kubernetes 1.32 API, batch/v1 Job; "Job with Pod-to-Pod Communication"; "Backoff
//! limit per index" (since 1.29) and "Pod failure policy" (since 1.26).

use std::process::ExitCode;

use fleet::job::{MEET, TOKEN, unnamed_hosts};
use fleet::rendezvous::AGENTS_MAX;
use serde_json::{Value, json};

use crate::args::K8sArgs;
use crate::exit::{End, Failure};
use crate::files::{input_file, output_file};
use crate::plans::plan_source;
use crate::terminal::output::Printable;

/// Port on which the controller listens in its pod.
const PORT: u16 = 7411;

/// Maximum length of a name. It leaves room for suffixes within a label's 63 characters.
///
/// **Source:** RFC 1123, 2.1; Kubernetes, "Object Names and IDs".
const NAME_CHARACTERS_MAX: usize = 40;

/// Prints the manifests.
///
/// # Errors
/// If the plan is invalid or a name is not allowed in Kubernetes.
pub(crate) fn run(args: &K8sArgs) -> Result<ExitCode, Failure> {
    let agents = args.agents;
    if !(1..=AGENTS_MAX).contains(&agents) {
        return Err(Failure::Usage(format!(
            "--agents {agents}: must be 1 to {AGENTS_MAX} (hint: one agent per client, such as \
             --agents 4)"
        )));
    }
    let text = input_file::read_plan(&args.plan)?;
    let source_name = args.plan.display().to_string();
    let flags = plan_source::RunFlags::parse(&args.run)?;
    let plan = flags.plan_of_job(&text, &source_name, unnamed_hosts(agents, 1))?;
    let name = match &args.name {
        Some(name) => name.clone(),
        None => usual_name(&plan.name),
    };
    let manifests = make_manifests(args, &name, &text)?;
    let json = serde_json::to_string_pretty(&manifests)
        .map_err(|error| Failure::Usage(format!("the manifests can't be written: {error}")))?;
    output_file::write_or_print(args.output.as_deref(), &Printable::json(&format!("{json}\n")))?;
    Ok(End::Ok.into())
}

/// Derives a valid Kubernetes name from a plan's name.
fn usual_name(plan: &str) -> String {
    let mut name = String::from("dfsbench-");
    for letter in plan.chars() {
        if name.len() == NAME_CHARACTERS_MAX {
            break;
        }
        let plain = if letter.is_ascii_alphanumeric() { letter } else { '-' };
        name.push(plain.to_ascii_lowercase());
    }
    name.trim_end_matches('-').to_owned()
}

fn check_name(what: &str, name: &str, max: usize) -> Result<(), Failure> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let ends = !name.starts_with('-') && !name.ends_with('-');
    if !name.is_empty() && name.len() <= max && ends && name.chars().all(plain) {
        return Ok(());
    }
    Err(Failure::Usage(format!(
        "{what} `{name}`: Kubernetes names have 1 to {max} characters of a-z, 0-9 and -, with no - \
         at either end"
    )))
}

/// A volume of a pod and where it is mounted.
struct MountedVolume {
    name: String,
    source: (&'static str, Value),
    path: String,
}

impl MountedVolume {
    fn claim(name: &str, claim: &str, path: &str) -> Result<Self, Failure> {
        check_name("the claim", claim, 63)?;
        let source = ("persistentVolumeClaim", json!({ "claimName": claim }));
        Ok(Self { name: name.to_owned(), source, path: path.to_owned() })
    }

    fn volume(&self) -> Value {
        let (kind, source) = &self.source;
        json!({ "name": self.name, *kind: source })
    }

    fn mount(&self) -> Value {
        json!({ "name": self.name, "mountPath": self.path })
    }
}

fn make_manifests(args: &K8sArgs, name: &str, plan: &str) -> Result<Value, Failure> {
    check_name("--name", name, NAME_CHARACTERS_MAX)?;
    if args.image.trim().is_empty() {
        return Err(Failure::Usage(
            "--image is empty (hint: for example registry/dfsbench:0.1)".to_owned(),
        ));
    }
    if let Some(namespace) = &args.namespace {
        check_name("--namespace", namespace, 63)?;
    }
    let cast = CampaignObjects { args, name };
    let plan = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": cast.metadata("plan"),
        "data": { "plan.toml": plan },
    });
    let items = [plan, cast.service(), cast.controller()?, cast.agents()?];
    Ok(json!({ "apiVersion": "v1", "kind": "List", "items": items }))
}

/// Values shared by all objects of a campaign.
struct CampaignObjects<'a> {
    args: &'a K8sArgs,
    name: &'a str,
}

impl CampaignObjects<'_> {
    fn labels(&self, part: &str) -> Value {
        json!({
            "app.kubernetes.io/name": "dfsbench",
            "app.kubernetes.io/instance": self.name,
            "app.kubernetes.io/component": part,
        })
    }

    fn metadata(&self, part: &str) -> Value {
        let mut metadata =
            json!({ "name": format!("{}-{part}", self.name), "labels": self.labels(part) });
        if let Some(namespace) = &self.args.namespace {
            metadata["namespace"] = json!(namespace);
        }
        metadata
    }

    /// Gives the controller's pod a DNS name even before the pod is ready.
    fn service(&self) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": self.metadata("meet"),
            "spec": {
                "clusterIP": "None",
                "publishNotReadyAddresses": true,
                "selector": self.labels("controller"),
                "ports": [{ "name": "meet", "port": PORT }],
            },
        })
    }

    fn controller(&self) -> Result<Value, Failure> {
        let plan = MountedVolume {
            name: "plan".to_owned(),
            source: ("configMap", json!({ "name": format!("{}-plan", self.name) })),
            path: "/plan".to_owned(),
        };
        let results = match &self.args.results_claim {
            Some(claim) => MountedVolume::claim("results", claim, "/results")?,
            None => MountedVolume {
                name: "results".to_owned(),
                source: ("emptyDir", json!({})),
                path: "/results".to_owned(),
            },
        };
        let agents = self.args.agents.to_string();
        // Agents connect from other pods, so listen on all addresses.
        let listen = format!("0.0.0.0:{PORT}");
        let mut command = vec![
            "dfsbench",
            "run",
            "/plan/plan.toml",
            "--launcher",
            "wait",
            "--agents",
            &agents,
            "--listen",
            &listen,
            "--meet-within",
            "10m",
            "--results",
            "/results/dfsbench.db",
        ];
        command.extend(self.args.run.iter().map(String::as_str));
        let env = [token_source()];
        Ok(self.job("controller", 1, &[plan, results], &json!(command), &json!(env)))
    }

    fn agents(&self) -> Result<Value, Failure> {
        let mut volumes = Vec::new();
        for (index, volume) in self.args.volume.iter().enumerate() {
            let Some((claim, path)) = volume.split_once(':').filter(|it| it.1.starts_with('/'))
            else {
                let why = "must be CLAIM:/path";
                return Err(Failure::Usage(format!("--volume {volume}: {why}")));
            };
            let path = match path.trim_end_matches('/') {
                "" => {
                    let why =
                        "a container's root directory comes from its image (hint: CLAIM:/data)";
                    return Err(Failure::Usage(format!("--volume {volume}: {why}")));
                }
                path => path,
            };
            if volumes.iter().any(|other: &MountedVolume| other.path == path) {
                let why = format!("another volume is already mounted at `{path}`");
                return Err(Failure::Usage(format!("--volume {volume}: {why}")));
            }
            volumes.push(MountedVolume::claim(&format!("measured-{index}"), claim, path)?);
        }
        let meet = format!("{0}-controller-0.{0}-meet:{PORT}", self.name);
        let node = json!({ "fieldRef": { "fieldPath": "spec.nodeName" } });
        let env = json!([
            { "name": MEET, "value": meet },
            token_source(),
            { "name": "DFSBENCH_SIZE", "value": self.args.agents.to_string() },
            { "name": "DFSBENCH_HOST", "valueFrom": node },
        ]);
        let command = json!(["dfsbench", "agent", "--meet", "--meet-within", "10m"]);
        let mut job = self.job("agent", self.args.agents, &volumes, &command, &env);
        let spec = &mut job["spec"];
        if let Some(spec) = spec.as_object_mut() {
            // With a limit for the whole Job, losing one agent would stop all others.
            spec.remove("backoffLimit");
        }
        // An agent that has exited can't rejoin its campaign, so no index is ever retried, for
        // whatever reason it failed.
        spec["backoffLimitPerIndex"] = json!(0);
        spec["podFailurePolicy"] = json!({ "rules": [
            {
                "action": "FailIndex",
                "onPodConditions": [{ "type": "DisruptionTarget", "status": "True" }],
            },
            {
                "action": "FailIndex",
                "onExitCodes": { "containerName": "agent", "operator": "NotIn", "values": [0] },
            },
        ] });
        // Clients on the same node would share its network and page cache.
        job["spec"]["template"]["spec"]["topologySpreadConstraints"] = json!([{
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": { "matchLabels": self.labels("agent") },
        }]);
        Ok(job)
    }

    fn job(
        &self,
        part: &str,
        count: u32,
        mounted: &[MountedVolume],
        command: &Value,
        env: &Value,
    ) -> Value {
        // The volumes of the pod, and where its only container mounts them.
        let mut volumes = Vec::new();
        let mut mounts = Vec::new();
        for one in mounted {
            volumes.push(one.volume());
            mounts.push(one.mount());
        }
        json!({
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": self.metadata(part),
            "spec": {
                "completionMode": "Indexed",
                "completions": count,
                "parallelism": count,
                "backoffLimit": 0,
                "template": {
                    "metadata": { "labels": self.labels(part) },
                    "spec": {
                        "subdomain": format!("{}-meet", self.name),
                        "restartPolicy": "Never",
                        "volumes": volumes,
                        "containers": [{
                            "name": part,
                            "image": self.args.image,
                            "command": command,
                            "env": env,
                            "volumeMounts": mounts,
                        }],
                    },
                },
            },
        })
    }
}

/// The token, which is only stored in the cluster.
fn token_source() -> Value {
    json!({
        "name": TOKEN,
        "valueFrom": { "secretKeyRef": { "name": "dfsbench-token", "key": "token" } },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn makes_valid_kubernetes_names() {
        assert_eq!(usual_name("Client scaling!"), "dfsbench-client-scaling");
        let long = usual_name(&"x".repeat(99));
        assert!(check_name("it", &long, NAME_CHARACTERS_MAX).is_ok(), "{long}");
        for name in ["", "-a", "a-", "A", "a.b", &"x".repeat(41)] {
            assert!(check_name("it", name, NAME_CHARACTERS_MAX).is_err(), "{name}");
        }
    }
}
