//! From a plan with one way to its data to one with a target for each layer below it.
//!
//! [`RawPlan::into_ladder`] keeps the work as it was asked for and multiplies the places where it
//! is done: the way in question last, and before it everything that it contains, as far as it can
//! be had from here. What can't is named with its reason. The ladder is an ordinary plan then,
//! whose trials are made block by block: a machine that is slow for a while is so on every layer.

use std::path::PathBuf;

use model::question::ladder::{Ladder, Layer, Missing, Placed};
use model::setting::{Setting, Value};
use model::{BackendKind, DataPath, OpKind, Order, ServerKind, Workload, XprtSec};

use crate::meaning::resolve::Plan;
use crate::reading::parse_targets::fits;
use crate::reading::work::OWN_MIX;
use crate::written::address::NfsAddress;
use crate::written::error::{Fault, Located, Place, PlanError};
use crate::written::hosts::UsedFrom;
use crate::written::raw::{RawPlan, RawTarget, RawWorkload};
use crate::written::target::TargetArg;

/// How long empty calls are made, in milliseconds: thousands of them.
const EMPTY_CALLS_MS: u64 = 300;

/// The settings that belong to the way in question and not to the work.
const OF_WAY: [Setting; 2] = [Setting::TransferSize, Setting::DataPath];

/// Why TCP to the server's host can't be had.
const NO_NETWORK: &str = "the network is not told from the server: `dfsbench serve` on its host \
                          and --own-server nfs://host:port/export would";

/// Facts about the server's host that the plan does not have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BesideServer {
    /// A server of ours there, without faults.
    pub own_server: Option<NfsAddress>,
    /// The directory that it serves, where it is a directory of this host.
    pub disk: Option<PathBuf>,
}

impl BesideServer {
    /// Refuses what is said of a server where there is none.
    fn check_none(&self) -> Result<(), PlanError> {
        let flag = match self {
            Self { own_server: Some(_), .. } => "--own-server",
            Self { disk: Some(_), .. } => "--server-disk",
            _ => return Ok(()),
        };
        let hint = "leave it out, or name nfs://server/export";
        let fault = Fault::new("is for a ladder to a server outside of this process").hint(hint);
        Err(fault.at(Place::Flag(flag)))
    }
}

/// The targets and runs that follow from where a ladder leads.
struct Layers {
    ladder: Ladder,
    targets: Vec<RawTarget>,
}

impl RawPlan {
    /// Makes a ladder of a plan with one target.
    ///
    /// # Errors
    /// When it has several targets, levels of a setting, or nothing below its one layer.
    pub fn into_ladder(self, beside: BesideServer) -> Result<(Self, Ladder), PlanError> {
        let source = self.source_name.clone();
        self.ladder(beside).map_err(|error| error.in_source(&source))
    }

    fn ladder(mut self, beside: BesideServer) -> Result<(Self, Ladder), PlanError> {
        let [way] = self.targets.as_slice() else {
            let names: Vec<&str> = self.targets.iter().map(|t| t.name.value.as_str()).collect();
            let what = format!("a ladder leads to one target, and not to {}", names.join(", "));
            return Err(Fault::new(what).hint("keep one [[target]]").at(Place::Whole));
        };
        let mut way = way.clone();
        self.check_levels()?;
        if way.what.lab().is_some() {
            // On each layer by a server of its own.
            self.move_to(&mut way, &[Setting::ServerKind, Setting::XprtSec]);
        }
        let mut top = way.clone();
        self.move_to(&mut top, &OF_WAY);
        let layers = self.layers(&way, top, beside)?;
        self.workloads = vec![self.stream(), empty_calls(&layers)];
        self.targets = layers.targets;
        self.repetition.order.get_or_insert(Located::unwritten(Order::Blocks));
        if self.name == "run" {
            "ladder".clone_into(&mut self.name);
        }
        Ok((self, layers.ladder))
    }

    /// Refuses settings with several levels: a ladder has one run for each layer.
    fn check_levels(&self) -> Result<(), PlanError> {
        let of_targets = self.targets.iter().filter_map(|target| target.what.settings());
        let of_stream = self.workloads.iter().filter(|w| w.kind.value == Workload::Stream);
        let all = of_stream.map(|w| &w.settings).chain(of_targets).chain([&self.factors]);
        for settings in all {
            for setting in Setting::ALL {
                let Some([_, second, ..]) = settings.get(setting) else { continue };
                let fault =
                    Fault::new("a ladder has one run for each layer, and one level of each")
                        .hint("keep one of them");
                return Err(fault.of(setting.key(), second.place));
            }
        }
        Ok(())
    }

    /// Moves settings from the work to the target.
    fn move_to(&mut self, top: &mut RawTarget, moved: &[Setting]) {
        for setting in moved.iter().copied() {
            let work = self.workloads.iter_mut().map(|workload| &mut workload.settings);
            let mut found = None;
            for settings in work.chain([&mut self.factors]) {
                found = found.or_else(|| settings.get(setting).map(<[_]>::to_vec));
                settings.remove(setting);
            }
            if let (Some(levels), Some(own)) = (found, top.what.settings_mut())
                && own.get(setting).is_none()
            {
                own.insert(setting, levels);
            }
        }
    }

    /// The one workload with bytes.
    fn stream(&self) -> RawWorkload {
        let planned = self.workloads.iter().find(|w| w.kind.value == Workload::Stream).cloned();
        let mut stream =
            planned.unwrap_or_else(|| RawWorkload::usual(Workload::Stream, Place::Whole));
        (stream.targets, stream.backends) = (None, None);
        stream
    }

    fn layers(
        &self,
        way: &RawTarget,
        top: RawTarget,
        beside: BesideServer,
    ) -> Result<Layers, PlanError> {
        let mut layers = Layers { ladder: Ladder::default(), targets: Vec::new() };
        layers.add(Layer::Null, "null", TargetArg::Null);
        if !matches!(top.what, TargetArg::Null | TargetArg::Nfs(_) | TargetArg::Lab(_)) {
            beside.check_none()?;
        }
        match &top.what {
            TargetArg::Null => {
                let what = "the null target is the lowest layer itself, and one layer is no ladder";
                let hint = "name a directory, nfs://host/export, embedded or a plan";
                return Err(Fault::new(what).hint(hint).at(Place::Whole));
            }
            TargetArg::Memory => layers.top(Layer::Memory, top),
            TargetArg::Directory(_) | TargetArg::Directories(_) | TargetArg::Temporary => {
                layers.add(Layer::Memory, "memory", TargetArg::Memory);
                layers.missing(
                    Layer::Server,
                    "what is behind the directory is not known: where a server is, nfs://server/\
                     export tells its share from the client's",
                );
                layers.top(Layer::Disk, top);
            }
            TargetArg::Tcp(_) => {
                layers.add(Layer::Memory, "memory", TargetArg::Memory);
                layers.top(Layer::Tcp, top);
            }
            TargetArg::Embedded(_) | TargetArg::Nfs(_) => {
                self.climb_nfs(&mut layers, way, top, beside);
            }
            TargetArg::Lab(_) => layers.climb_lab(way, top, beside)?,
        }
        Ok(layers)
    }

    /// The layers below a server that is spoken to by our client.
    fn climb_nfs(
        &self,
        layers: &mut Layers,
        way: &RawTarget,
        top: RawTarget,
        BesideServer { own_server, disk }: BesideServer,
    ) {
        let (TargetArg::Embedded(address) | TargetArg::Nfs(address)) = &top.what else { return };
        let is_ours = matches!(top.what, TargetArg::Embedded(_));
        let is_clean = is_ours && self.server.faults.planned.is_empty();
        let is_near = is_ours || is_loopback(&address.host);
        layers.ladder.network_unknown = !is_near && own_server.is_none();
        layers.add(Layer::Memory, "memory", TargetArg::Memory);
        match &disk {
            Some(path) => layers.add(Layer::Disk, "disk", TargetArg::Directory(path.clone())),
            None => layers.add(Layer::Local, "dir", TargetArg::Temporary),
        }
        layers.add_own(address, own_server, is_clean);
        if layers.ladder.network_unknown {
            layers.missing(Layer::Tcp, NO_NETWORK);
        }
        if !is_ours && disk.is_none() {
            layers.missing(
                Layer::Disk,
                "the server's disk is not told from the server: --server-disk DIR would where the \
                 server is this host, else a plan with its [[host]]",
            );
        }
        if !is_ours {
            layers.missing(
                Layer::Network,
                "the kernel's client is not compared: a plan with [[host]]s, and root there, would",
            );
        }
        if top.what.settings().is_some_and(|own| own.get(Setting::TransferSize).is_some()) {
            let mut whole = top.clone();
            if let Some(settings) = whole.what.settings_mut() {
                settings.remove(Setting::TransferSize);
            }
            layers.add_like(Layer::Whole, "whole", &whole);
        }
        let layer = if is_clean { Layer::Own } else { Layer::Server };
        layers.top(layer, RawTarget { name: way.name.clone(), ..top });
    }
}

impl Layers {
    fn add(&mut self, layer: Layer, name: &str, what: TargetArg) {
        let mut target = RawTarget::usual(what);
        name.clone_into(&mut target.name.value);
        self.push(layer, target);
    }

    fn add_like(&mut self, layer: Layer, name: &str, like: &RawTarget) {
        let name = Located::unwritten(name.to_owned());
        self.push(layer, RawTarget { name, ..like.clone() });
    }

    /// Adds TCP and our server without faults, unless that is the way in question itself.
    fn add_own(&mut self, like: &NfsAddress, own: Option<NfsAddress>, is_top: bool) {
        let tcp = match &own {
            Some(NfsAddress { host, port, .. }) => TargetArg::Tcp(model::TcpTarget {
                host: host.clone(),
                port: Some(port.unwrap_or(2049)),
                embedded: false,
            }),
            None => TargetArg::tcp_embedded(),
        };
        self.add(Layer::Tcp, "tcp", tcp);
        if is_top {
            return;
        }
        let mut what = own.map_or_else(|| TargetArg::faultless(like.user.clone()), TargetArg::Nfs);
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

    fn missing(&mut self, layer: Layer, why: &str) {
        self.ladder.missing.push(Missing { layer, why: why.to_owned() });
    }

    /// The way in question; layers with the same name give way.
    fn top(&mut self, layer: Layer, target: RawTarget) {
        let taken = |placed: &&mut Placed| placed.target == target.name.value;
        if let Some(placed) = self.ladder.layers.iter_mut().find(taken) {
            placed.target.push_str("-layer");
            let targets = self.targets.iter_mut();
            for other in targets.filter(|other| other.name.value == target.name.value) {
                other.name.value.push_str("-layer");
            }
        }
        self.push(layer, target);
    }

    fn push(&mut self, layer: Layer, target: RawTarget) {
        self.ladder.layers.push(Placed { layer, target: target.name.value.clone() });
        self.targets.push(target);
    }

    /// The layers of hosts that are set up: each way that data can go there.
    fn climb_lab(
        &mut self,
        way: &RawTarget,
        top: RawTarget,
        beside: BesideServer,
    ) -> Result<(), PlanError> {
        let TargetArg::Lab(lab) = &way.what else { return Ok(()) };
        if beside.disk.is_some() {
            let hint = "leave it out: the plan's server has its disk measured";
            let fault = Fault::new("is for servers that aren't set up").hint(hint);
            return Err(fault.at(Place::Flag("--server-disk")));
        }
        let is_alone = lab.client.is_none();
        let asked = |setting| match top.what.settings()?.get(setting)?.first()?.value {
            Value::Word(word) => Some(word),
            _ => None,
        };
        let near = if is_alone { DataPath::Loopback } else { DataPath::Network };
        let path = asked(Setting::DataPath).and_then(DataPath::from_name).unwrap_or(near);
        let serves_itself = asked(Setting::ServerKind) == Some(ServerKind::Own.name());
        let along = |path: DataPath, backend: BackendKind| {
            let mut target = RawTarget { backends: vec![backend], ..way.clone() };
            if let Some(own) = target.what.settings_mut() {
                own.insert(Setting::DataPath, vec![Located::unwritten(Value::Word(path.name()))]);
            }
            target
        };
        let posix = BackendKind::Posix;
        self.add(Layer::Memory, "memory", TargetArg::Memory);
        if !serves_itself && path != DataPath::Disk {
            self.add_like(Layer::Disk, "disk", &along(DataPath::Disk, posix));
        }
        let is_tcp = top.backends == [BackendKind::Tcp];
        let is_ours = is_tcp || top.backends == [BackendKind::Nfs];
        if let Some(own) = beside.own_server {
            self.add_own(&own.clone(), Some(own), false);
        } else if path != DataPath::Disk && !is_tcp {
            self.add_like(Layer::Tcp, "tcp", &served_by_us(way, near, BackendKind::Tcp));
            if !(serves_itself && is_ours && path != DataPath::Tunnel) {
                self.add_like(Layer::Own, "own", &served_by_us(way, near, BackendKind::Nfs));
            }
        }
        let is_mounted = path != DataPath::Disk && !is_ours;
        let is_tunnelled = is_ours && path == DataPath::Tunnel;
        if (is_mounted || is_tunnelled) && !serves_itself {
            self.add_like(Layer::Server, "server", &along(near, BackendKind::Nfs));
        }
        if is_mounted && path != DataPath::Loopback {
            self.add_like(Layer::Loopback, "loopback", &along(DataPath::Loopback, posix));
        }
        if is_mounted && path == DataPath::Tunnel {
            self.add_like(Layer::Network, "network", &along(DataPath::Network, posix));
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
        // The layers without a server are those of the host that works.
        let worker = lab.client.as_ref().unwrap_or(&lab.server).clone();
        let from = match &way.used_from {
            UsedFrom::One => UsedFrom::Hosts(vec![worker]),
            hosts => hosts.clone(),
        };
        for target in self.targets.iter_mut().filter(|target| target.what.lab().is_none()) {
            target.used_from = from.clone();
        }
        self.top(layer, top);
        Ok(())
    }
}

/// Our server in place of the one in question, on its host: without anything that files lie on.
fn served_by_us(way: &RawTarget, path: DataPath, backend: BackendKind) -> RawTarget {
    let mut target = RawTarget { backends: vec![backend], ..way.clone() };
    if let TargetArg::Lab(lab) = &mut target.what {
        (lab.devices, lab.loop_bytes, lab.directory) = (None, 0, None);
        for (setting, word) in [
            (Setting::DataPath, path.name()),
            (Setting::ServerKind, ServerKind::Own.name()),
            // A server of ours has no certificate there; a layer above it shows what TLS takes.
            (Setting::XprtSec, XprtSec::None.name()),
        ] {
            lab.settings.insert(setting, vec![Located::unwritten(Value::Word(word))]);
        }
    }
    target
}

/// Calls that ask for nothing, wherever there are calls: what a round trip takes.
fn empty_calls(layers: &Layers) -> RawWorkload {
    let mut calls = RawWorkload::usual(Workload::OpMix, Place::Whole);
    OWN_MIX.clone_into(&mut calls.mix.name);
    calls.mix.shares = vec![(OpKind::Null, 10_000)];
    let has_calls = |target: &&RawTarget| {
        [BackendKind::Tcp, BackendKind::Nfs].iter().any(|b| fits(&target.what, *b).is_ok())
            && target.backends.iter().all(|b| matches!(b, BackendKind::Tcp | BackendKind::Nfs))
    };
    let with_calls = layers.targets.iter().filter(has_calls);
    let null = layers.targets.iter().filter(|target| target.what == TargetArg::Null);
    calls.targets = Some(null.chain(with_calls).map(|target| target.name.clone()).collect());
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

fn is_loopback(host: &str) -> bool {
    model::NfsTarget::new(host, "/").is_loopback()
}

impl Plan {
    /// Refuses a ladder whose layers have more than one run for each kind of work.
    ///
    /// # Errors
    /// When settings multiply a layer.
    pub fn check_ladder(&self) -> Result<(), PlanError> {
        let mut seen = Vec::new();
        for run in &self.runs {
            let place = (&run.target_name, run.workload);
            if seen.contains(&place) {
                let what = format!("layer `{}` would have several runs", run.target_name);
                let fault = Fault::new(what).hint("a ladder has one level of each setting");
                return Err(fault.at(Place::Whole).in_source(&self.name));
            }
            seen.push(place);
        }
        Ok(())
    }
}
