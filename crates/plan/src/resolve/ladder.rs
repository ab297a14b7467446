//! Extends a plan with one target by a target for each layer below it.
//!
//! [`RawPlan::into_ladder`] repeats the workload on other targets: first on every layer below the
//! plan's own target that can be measured from here, then on that target. Layers that can't be
//! measured are listed with the reason. The result is an ordinary plan whose trials run in blocks,
//! so that a temporary slowdown of the machine affects all layers alike.

use std::path::PathBuf;

use model::question::ladder::{Ladder, Layer, Missing, PlacedLayer};
use model::setting::{Setting, Value};
use model::{BackendKind, DataPath, OpKind, Order, Pnfs, ServerKind, Target, Workload, XprtSec};

use crate::parse::targets::fits;
use crate::parse::work::OWN_MIX;
use crate::resolve::plan::Plan;
use crate::syntax::address::NfsAddress;
use crate::syntax::error::{Fault, Located, PlanError, PlanPosition};
use crate::syntax::hosts::UsedFrom;
use crate::syntax::lab::LabArg;
use crate::syntax::raw::{RawPlan, RawTarget, RawWorkload};
use crate::syntax::settings::Settings;
use crate::syntax::target::TargetArg;

/// Duration of the pass of empty calls, in milliseconds: enough for thousands of calls.
const EMPTY_CALLS_MS: u64 = 300;

/// Settings that belong to the plan's own target rather than to the work.
const OF_TARGET: [Setting; 2] = [Setting::TransferSize, Setting::DataPath];

/// Why TCP to the server's host can't be measured.
const NO_NETWORK: &str = "the network can't be separated from the server; this requires `dfsbench \
    serve` on its host and --own-server nfs://host:port/export";

const NO_SERVER: &str = "it is not known what is behind the directory; if it is a server, \
    nfs://server/export separates its share from the client's";

const NO_DISK: &str = "the server's disk can't be separated from the server; this requires \
    --server-disk DIR if the server is this host, otherwise a plan with its [[host]]";

const NO_FEWER: &str = "what the data servers add is not known; this requires targets with fewer of \
    them, in a plan for `dfsbench run`";

const NO_SINGLE: &str = "one data server is not compared, since each copy of the data needs one";

const NO_MOUNT: &str =
    "the kernel's client is not compared; this requires a plan with [[host]]s, and root there";

/// Facts about the server's host that the plan does not contain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BesideServer {
    /// A dfsbench server on that host, without faults.
    pub own_server: Option<NfsAddress>,
    /// The directory that it serves, if that is a directory of the local host.
    pub disk: Option<PathBuf>,
}

impl BesideServer {
    /// Refuses facts about a server if there is none.
    fn check_none(&self) -> Result<(), PlanError> {
        let flag = match self {
            Self { own_server: Some(_), .. } => "--own-server",
            Self { disk: Some(_), .. } => "--server-disk",
            _ => return Ok(()),
        };
        let hint = "leave it out, or name nfs://server/export";
        let fault = Fault::new("is for a ladder to a server outside this process").hint(hint);
        Err(fault.at(PlanPosition::Flag(flag)))
    }
}

/// The layers of a ladder, each with its target.
#[derive(Default)]
struct Layers {
    ladder: Ladder,
    targets: Vec<RawTarget>,
}

impl RawPlan {
    /// Turns a plan with one target into a ladder.
    ///
    /// # Errors
    /// If it has several targets, several levels of a setting, or no layers below its own.
    pub fn into_ladder(self, beside: BesideServer) -> Result<(Self, Ladder), PlanError> {
        let source = self.source_name.clone();
        self.make_ladder(beside).map_err(|error| error.in_source(&source))
    }

    fn make_ladder(mut self, beside: BesideServer) -> Result<(Self, Ladder), PlanError> {
        let [own] = self.targets.as_slice() else {
            let names: Vec<&str> = self.targets.iter().map(|t| t.name.value.as_str()).collect();
            let what = format!("a ladder measures one target, not {}", names.join(", "));
            return Err(Fault::new(what).hint("keep one [[target]]").at(PlanPosition::Whole));
        };
        // `own` is the template for the layers below. `top` keeps the settings that those must not
        // have.
        let mut own = own.clone();
        self.check_levels()?;
        if own.what.lab().is_some() {
            // On some layers our server stands in for the plan's, with settings of its own.
            self.move_to(&mut own, &[Setting::ServerKind, Setting::XprtSec]);
        }
        let mut top = own.clone();
        self.move_to(&mut top, &OF_TARGET);
        let mut layers = self.layers(&own, top, beside)?;
        if !self.sets(Setting::Localio) {
            layers.turn_localio_off();
        }
        self.workloads = vec![self.stream(), empty_calls(&layers)];
        self.targets = layers.targets;
        self.repetition.order.get_or_insert(Located::unwritten(Order::Blocks));
        if self.name == "run" {
            "ladder".clone_into(&mut self.name);
        }
        Ok((self, layers.ladder))
    }

    /// Refuses settings with several levels, since a ladder has one run per layer.
    fn check_levels(&self) -> Result<(), PlanError> {
        let mut all: Vec<_> = self
            .workloads
            .iter()
            .filter(|workload| workload.kind.value == Workload::Stream)
            .map(|workload| &workload.settings)
            .collect();
        all.extend(self.targets[0].what.settings());
        all.push(&self.factors);
        for settings in all {
            for setting in Setting::ALL {
                if let Some([_, second, ..]) = settings.get(setting) {
                    let what = "a ladder has one run for each layer, so each setting has one level";
                    let fault = Fault::new(what).hint("keep one of them");
                    return Err(fault.of_key(setting.key(), second.place));
                }
            }
        }
        Ok(())
    }

    /// Returns true if the plan or a flag sets this anywhere.
    fn sets(&self, setting: Setting) -> bool {
        let mut all: Vec<&Settings> = self.workloads.iter().map(|one| &one.settings).collect();
        all.extend(self.targets.iter().filter_map(|target| target.what.settings()));
        all.push(&self.factors);
        all.into_iter().any(|settings| settings.get(setting).is_some())
    }

    /// Moves settings from the workload to a target, whose own settings take precedence.
    fn move_to(&mut self, target: &mut RawTarget, moved: &[Setting]) {
        for setting in moved.iter().copied() {
            let mut found = None;
            for workload in &mut self.workloads {
                move_level(&mut workload.settings, setting, &mut found);
            }
            move_level(&mut self.factors, setting, &mut found);
            if let (Some(levels), Some(own)) = (found, target.what.settings_mut())
                && own.get(setting).is_none()
            {
                own.insert(setting, levels);
            }
        }
    }

    /// Returns the one workload that moves data.
    fn stream(&self) -> RawWorkload {
        let mut stream = RawWorkload::with_defaults(Workload::Stream, PlanPosition::Whole);
        for workload in &self.workloads {
            if workload.kind.value == Workload::Stream {
                stream = RawWorkload { targets: None, backends: None, ..workload.clone() };
                break;
            }
        }
        stream
    }

    fn layers(
        &self,
        own: &RawTarget,
        top: RawTarget,
        beside: BesideServer,
    ) -> Result<Layers, PlanError> {
        let mut layers = Layers::default();
        layers.add(Layer::Null, "null", TargetArg::NULL);
        if !matches!(top.what, TargetArg::Ready(Target::Null | Target::Memory)) {
            layers.add(Layer::Memory, "memory", TargetArg::Ready(Target::Memory));
        }
        match &top.what {
            TargetArg::Nfs(_) | TargetArg::Lab(_) | TargetArg::Ready(Target::Null) => {}
            _ => beside.check_none()?,
        }
        match &top.what {
            TargetArg::Ready(Target::Null) => {
                let what =
                    "the null target is the lowest layer itself, and a ladder needs more than one";
                let hint = "name a directory, nfs://host/export, embedded or a plan";
                return Err(Fault::new(what).hint(hint).at(PlanPosition::Whole));
            }
            TargetArg::Ready(Target::Memory) => layers.add_top(Layer::Memory, top),
            TargetArg::Ready(Target::Tcp(_)) => layers.add_top(Layer::Tcp, top),
            TargetArg::Ready(_) | TargetArg::Temporary => {
                layers.add_missing(Layer::Server, NO_SERVER);
                layers.add_top(Layer::Disk, top);
            }
            TargetArg::Embedded(_) | TargetArg::Nfs(_) => {
                self.add_nfs(&mut layers, own, top, beside);
            }
            TargetArg::Lab(_) => layers.add_lab(own, top, beside)?,
        }
        Ok(layers)
    }

    /// Adds the layers below an NFS server that our client speaks to.
    fn add_nfs(
        &self,
        layers: &mut Layers,
        own: &RawTarget,
        top: RawTarget,
        BesideServer { own_server, disk }: BesideServer,
    ) {
        let (TargetArg::Embedded(address) | TargetArg::Nfs(address)) = &top.what else { return };
        let is_ours = matches!(top.what, TargetArg::Embedded(_));
        let is_clean = is_ours && self.server.faults.planned.is_empty();
        let is_near = is_ours || is_loopback(&address.host);
        layers.ladder.network_unknown = !is_near && own_server.is_none();
        match &disk {
            Some(path) => layers.add(Layer::Disk, "disk", TargetArg::directory(path.clone())),
            None => layers.add(Layer::Local, "dir", TargetArg::Temporary),
        }
        layers.add_own(address, own_server, is_clean);
        if layers.ladder.network_unknown {
            layers.add_missing(Layer::Tcp, NO_NETWORK);
        }
        if !is_ours && disk.is_none() {
            layers.add_missing(Layer::Disk, NO_DISK);
        }
        if !is_ours {
            layers.add_missing(Layer::Network, NO_MOUNT);
        }
        let mut whole = top.clone();
        if let Some(settings) = whole.what.settings_mut()
            && settings.get(Setting::TransferSize).is_some()
        {
            settings.remove(Setting::TransferSize);
            layers.add_like(Layer::Whole, "whole", whole);
        }
        self.add_one_data_server(layers, &top, is_ours);
        let layer = if is_clean { Layer::Own } else { Layer::Server };
        layers.add_top(layer, RawTarget { name: own.name.clone(), ..top });
    }
}

impl RawPlan {
    /// Adds the cluster with one data server, if it has several.
    fn add_one_data_server(&self, layers: &mut Layers, top: &RawTarget, is_ours: bool) {
        if self.word(top, Setting::Pnfs).is_none_or(|word| word == Pnfs::Off.name()) {
            return;
        }
        if !is_ours {
            return layers.add_missing(Layer::OneDataServer, NO_FEWER);
        }
        let cluster = self.server.cluster.as_ref();
        let given = |setting| self.number(top, setting);
        let servers = given(Setting::DataServers)
            .or_else(|| cluster.map(|cluster| cluster.data_servers.count() as u64));
        let copies = given(Setting::Mirrors).or_else(|| cluster.map(|one| one.mirrors.into()));
        if servers.is_none_or(|servers| servers < 2) {
            return;
        }
        if copies.is_some_and(|copies| copies > 1) {
            return layers.add_missing(Layer::OneDataServer, NO_SINGLE);
        }
        let mut one = top.clone();
        if let Some(settings) = one.what.settings_mut() {
            let level = Located::unwritten(Value::Number(1));
            settings.insert(Setting::DataServers, vec![level]);
        }
        layers.add_like(Layer::OneDataServer, "one-data-server", one);
    }

    /// Returns the level of a setting of the target or its work, whichever has precedence.
    fn level<'s>(&'s self, target: &'s RawTarget, setting: Setting) -> Option<&'s Value> {
        let work = self.workloads.iter().filter(|one| one.kind.value == Workload::Stream);
        let settings = target.what.settings().into_iter();
        let mut all = settings.chain(work.map(|one| &one.settings)).chain([&self.factors]);
        Some(&all.find_map(|settings| settings.get(setting))?.first()?.value)
    }

    fn word(&self, target: &RawTarget, setting: Setting) -> Option<&'static str> {
        match self.level(target, setting)? {
            Value::Word(word) => Some(word),
            _ => None,
        }
    }

    fn number(&self, target: &RawTarget, setting: Setting) -> Option<u64> {
        match self.level(target, setting)? {
            Value::Number(number) => Some(*number),
            _ => None,
        }
    }
}

/// Removes a setting; keeps its levels in `found` if that is still empty.
fn move_level(from: &mut Settings, setting: Setting, found: &mut Option<Vec<Located<Value>>>) {
    if found.is_none() {
        *found = from.get(setting).map(<[_]>::to_vec);
    }
    from.remove(setting);
}

impl Layers {
    fn add(&mut self, layer: Layer, name: &str, what: TargetArg) {
        self.add_like(layer, name, RawTarget::with_defaults(what));
    }

    fn add_like(&mut self, layer: Layer, name: &str, like: RawTarget) {
        self.push(layer, RawTarget { name: Located::unwritten(name.to_owned()), ..like });
    }

    /// Adds TCP and our server without faults, unless that is the plan's own target.
    fn add_own(&mut self, like: &NfsAddress, own: Option<NfsAddress>, is_top: bool) {
        let tcp = match &own {
            Some(NfsAddress { host, port, .. }) => {
                TargetArg::tcp(host.clone(), Some(port.unwrap_or(model::lab::NFS_PORT)))
            }
            None => TargetArg::tcp_embedded(),
        };
        self.add(Layer::Tcp, "tcp", tcp);
        if is_top {
            return;
        }
        let mut what = match own {
            Some(address) => TargetArg::Nfs(address),
            None => TargetArg::without_faults(like.user.clone()),
        };
        if let Some(settings) = what.settings_mut() {
            for setting in Setting::OF_TARGETS {
                if let Some(levels) = like.settings.get(setting) {
                    settings.insert(setting, levels.to_vec());
                }
            }
            settings.remove(Setting::TransferSize);
        }
        self.add(Layer::Own, "own", what);
    }

    fn add_missing(&mut self, layer: Layer, why: &str) {
        self.ladder.missing.push(Missing { layer, why: why.to_owned() });
    }

    /// Adds the plan's own target; a layer that already has its name is renamed.
    fn add_top(&mut self, layer: Layer, target: RawTarget) {
        for (placed, other) in self.ladder.layers.iter_mut().zip(&mut self.targets) {
            if placed.target == target.name.value {
                placed.target.push_str("-layer");
                other.name.value.push_str("-layer");
            }
        }
        self.push(layer, target);
    }

    fn push(&mut self, layer: Layer, target: RawTarget) {
        self.ladder.layers.push(PlacedLayer { layer, target: target.name.value.clone() });
        self.targets.push(target);
    }

    /// Adds the layers of hosts that are set up: each path that data can take there.
    fn add_lab(
        &mut self,
        own: &RawTarget,
        top: RawTarget,
        beside: BesideServer,
    ) -> Result<(), PlanError> {
        let TargetArg::Lab(lab) = &own.what else { return Ok(()) };
        if beside.disk.is_some() {
            let hint = "leave it out: the disk of the plan's server is measured anyway";
            let fault = Fault::new("is for servers that aren't set up").hint(hint);
            return Err(fault.at(PlanPosition::Flag("--server-disk")));
        }
        let near = if lab.client.is_none() { DataPath::Loopback } else { DataPath::Network };
        let path = match first_word(&top, Setting::DataPath) {
            Some(word) => DataPath::from_name(word).unwrap_or(near),
            None => near,
        };
        let serves_itself = first_word(&top, Setting::ServerKind) == Some(ServerKind::Own.name());
        let is_tcp = top.backends == [BackendKind::Tcp];
        let is_ours = is_tcp || top.backends == [BackendKind::Nfs];
        if !serves_itself && path != DataPath::Disk {
            self.add_along(Layer::Disk, own, DataPath::Disk, BackendKind::Posix);
        }
        if let Some(server) = beside.own_server {
            self.add_own(&server.clone(), Some(server), false);
        } else if path != DataPath::Disk && !is_tcp {
            self.add_like(Layer::Tcp, "tcp", served_by_us(own, near, BackendKind::Tcp));
            // Skipped if it is the plan's own target.
            if !(serves_itself && is_ours && path != DataPath::Tunnel) {
                self.add_like(Layer::Own, "own", served_by_us(own, near, BackendKind::Nfs));
            }
        }
        let is_mounted = path != DataPath::Disk && !is_ours;
        let is_tunnelled = is_ours && path == DataPath::Tunnel;
        if (is_mounted || is_tunnelled) && !serves_itself {
            self.add_along(Layer::Server, own, near, BackendKind::Nfs);
        }
        if is_mounted && path != DataPath::Loopback {
            self.add_along(Layer::Loopback, own, DataPath::Loopback, BackendKind::Posix);
        }
        if is_mounted && path == DataPath::Tunnel {
            self.add_along(Layer::Network, own, DataPath::Network, BackendKind::Posix);
        }
        let layer = match path {
            _ if is_tcp => Layer::Tcp,
            DataPath::Tunnel => Layer::Tunnel,
            _ if is_ours && serves_itself => Layer::Own,
            _ if is_ours => Layer::Server,
            DataPath::Disk => Layer::Disk,
            DataPath::Loopback => Layer::Loopback,
            DataPath::Network => Layer::Network,
        };
        self.work_on_client(&own.used_from, lab);
        self.add_top(layer, top);
        Ok(())
    }

    /// Adds the plan's own hosts with the data on another path.
    fn add_along(&mut self, layer: Layer, own: &RawTarget, path: DataPath, backend: BackendKind) {
        let mut target = RawTarget { backends: vec![backend], ..own.clone() };
        if let Some(settings) = target.what.settings_mut() {
            settings.insert(Setting::DataPath, word_level(path.name()));
        }
        self.add_like(layer, layer.name(), target);
    }

    /// Makes the mount of the server's own export use NFS, which is what this layer measures.
    fn turn_localio_off(&mut self) {
        for (placed, target) in self.ladder.layers.iter().zip(&mut self.targets) {
            if placed.layer == Layer::Loopback
                && let Some(settings) = target.what.settings_mut()
            {
                let off = vec![Located::unwritten(Value::Flag(false))];
                settings.insert(Setting::Localio, off);
            }
        }
    }

    /// Moves the layers without a server to the host that runs the workload.
    fn work_on_client(&mut self, used_from: &UsedFrom, lab: &LabArg) {
        let from = match used_from {
            UsedFrom::One => {
                UsedFrom::Hosts(vec![lab.client.as_ref().unwrap_or(&lab.server).clone()])
            }
            hosts => hosts.clone(),
        };
        for target in &mut self.targets {
            if target.what.lab().is_none() {
                target.used_from.clone_from(&from);
            }
        }
    }
}

/// Returns the first level of a target's setting, if it is a word.
fn first_word(target: &RawTarget, setting: Setting) -> Option<&'static str> {
    match target.what.settings()?.get(setting)?.first()?.value {
        Value::Word(word) => Some(word),
        _ => None,
    }
}

/// Creates a level that was not written in the plan.
fn word_level(word: &'static str) -> Vec<Located<Value>> {
    vec![Located::unwritten(Value::Word(word))]
}

/// Replaces the plan's server by ours on the same host, without its devices and directories.
fn served_by_us(own: &RawTarget, path: DataPath, backend: BackendKind) -> RawTarget {
    let mut target = RawTarget { backends: vec![backend], ..own.clone() };
    if let TargetArg::Lab(lab) = &mut target.what {
        lab.devices = None;
        lab.loop_bytes = 0;
        lab.directories = None;
        lab.is_spread = false;
        lab.settings.insert(Setting::DataPath, word_level(path.name()));
        lab.settings.insert(Setting::ServerKind, word_level(ServerKind::Own.name()));
        // Our server has no certificate on that host; the cost of TLS shows in the layer above.
        lab.settings.insert(Setting::XprtSec, word_level(XprtSec::None.name()));
    }
    target
}

/// Plans empty calls on all layers that have calls, to measure the round trip.
fn empty_calls(layers: &Layers) -> RawWorkload {
    let mut calls = RawWorkload::with_defaults(Workload::OpMix, PlanPosition::Whole);
    OWN_MIX.clone_into(&mut calls.mix.name);
    calls.mix.shares = vec![(OpKind::Null, 10_000)];
    let names: Vec<_> = layers
        .targets
        .iter()
        .filter(|target| target.what == TargetArg::NULL || has_calls(target))
        .map(|target| target.name.clone())
        .collect();
    calls.targets = Some(names);
    let settings = [
        (Setting::Rate, 0),
        (Setting::SetPerRate, 0),
        (Setting::QueueDepth, 1),
        (Setting::Duration, EMPTY_CALLS_MS),
    ];
    for (setting, number) in settings {
        calls.settings.insert(setting, vec![Located::unwritten(Value::Number(number))]);
    }
    calls
}

/// Returns true if ops on a target are calls of our client, or frames over TCP.
fn has_calls(target: &RawTarget) -> bool {
    let calls = [BackendKind::Tcp, BackendKind::Nfs];
    calls.iter().any(|backend| fits(&target.what, *backend).is_ok())
        && target.backends.iter().all(|backend| calls.contains(backend))
}

fn is_loopback(host: &str) -> bool {
    model::NfsTarget::new(host, "/").is_loopback()
}

impl Plan {
    /// Refuses a ladder with more than one run per layer and workload.
    pub fn check_ladder(&self) -> Result<(), PlanError> {
        let mut seen = Vec::new();
        for run in &self.runs {
            let place = (&run.target_name, run.workload);
            if seen.contains(&place) {
                let what = format!("layer `{}` would have several runs", run.target_name);
                let fault = Fault::new(what).hint("a ladder has one level of each setting");
                return Err(fault.at(PlanPosition::Whole).in_source(&self.name));
            }
            seen.push(place);
        }
        Ok(())
    }
}
