//! Tests of recipes.

use super::*;
use crate::systems::action::{CommandContext, SystemSteps};

fn recipe() -> Recipe {
    let choice = RecipeSetting {
        kind: SettingKind::Choice,
        meaning: "how files are kept".to_owned(),
        default: "one".to_owned(),
        choices: vec!["one".to_owned(), "two".to_owned()],
        ..RecipeSetting::default()
    };
    let number = RecipeSetting {
        kind: SettingKind::Number,
        meaning: "how many".to_owned(),
        default: "2".to_owned(),
        min: 1,
        max: 4,
        ..RecipeSetting::default()
    };
    let by = Variable {
        by: "layout".to_owned(),
        values: [("one", ""), ("two", "copies {parts}")]
            .map(|(name, text)| (name.to_owned(), text.to_owned()))
            .into(),
        ..Variable::default()
    };
    let list = Variable {
        repeat: "{address}:{storage}/{n}".to_owned(),
        count: "{parts}".to_owned(),
        separator: " ".to_owned(),
        ..Variable::default()
    };
    Recipe {
        name: "plain".to_owned(),
        title: "a system".to_owned(),
        tried: "nowhere".to_owned(),
        durability: "none".to_owned(),
        settings: [("layout".to_owned(), choice), ("parts".to_owned(), number)].into(),
        variables: [("words".to_owned(), by), ("list".to_owned(), list)].into(),
        storage: true,
        caches: Caches { proof: "none".to_owned(), ..Caches::default() },
        folders: vec!["{dir}/a".to_owned(), "{storage}/{n}".to_owned()],
        files: vec![RecipeFile {
            path: "{dir}/f{n}".to_owned(),
            text: "A { b = {parts}; {{parts}} }".to_owned(),
            count: "{parts}".to_owned(),
        }],
        steps: vec![RecipeStep {
            start: words("server {*words} {*list} end"),
            within_s: 1,
            ..RecipeStep::default()
        }],
        access: AccessWays {
            fuse: Some(FuseAccess {
                run: words("mounter {address} {point}"),
                ..FuseAccess::default()
            }),
            ..AccessWays::default()
        },
        ..Recipe::default()
    }
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

fn places() -> Places {
    Places {
        dir: "/run/dfsbench/systems/plain".to_owned(),
        storage: "/s".to_owned(),
        hosts: vec!["h".to_owned()],
        servers: 1,
        roles: BTreeMap::new(),
        way: None,
        clients: "c".to_owned(),
        point: "/p".to_owned(),
    }
}

fn given(name: &str, value: &str) -> Vec<(String, String)> {
    vec![(name.to_owned(), value.to_owned())]
}

/// Formats the steps, each after the index of its host.
fn shown(steps: &[PlacedStep]) -> Vec<String> {
    let mut shown = Vec::new();
    for placed in steps {
        let words = match &placed.step {
            FilledStep::Start(words)
            | FilledStep::Run { words, .. }
            | FilledStep::Ready(words, _) => words.join(" "),
            FilledStep::Port(port, _) => port.to_string(),
        };
        shown.push(format!("{}: {words}", placed.host));
    }
    shown
}

#[test]
fn expands_variables_from_settings() {
    let recipe = recipe();
    assert_eq!(recipe.problems(), []);
    let filled = recipe.fill_in(&[], &places()).unwrap();
    let host = &filled.hosts[0];
    assert_eq!(host.folders, ["/run/dfsbench/systems/plain/a", "/s/1", "/s/2"]);
    assert_eq!(host.files.len(), 2);
    assert_eq!(host.files[1].path, "/run/dfsbench/systems/plain/f2");
    // A brace without a name is literal.
    assert_eq!(host.files[1].text, "A { b = 2; {parts} }");
    assert_eq!(shown(&filled.steps), ["0: server h:/s/1 h:/s/2 end"]);
    assert_eq!(filled.fuse.unwrap().run, words("mounter h /p"));
    let two = recipe.fill_in(&given("layout", "two"), &places()).unwrap();
    assert_eq!(shown(&two.steps), ["0: server copies 2 h:/s/1 h:/s/2 end"]);
    let three = recipe.fill_in(&given("parts", "3"), &places()).unwrap();
    assert_eq!((three.hosts[0].folders.len(), three.hosts[0].files.len()), (4, 3));
}

#[test]
fn restarts_servers_without_setup() {
    let mut recipe = recipe();
    let run = |text: &str, again| RecipeStep {
        run: words(text),
        within_s: 9,
        again,
        ..RecipeStep::default()
    };
    recipe.steps.insert(0, run("make", false));
    recipe.steps.push(run("activate", true));
    assert_eq!(recipe.problems(), []);
    let filled = recipe.fill_in(&[], &places()).unwrap();
    let server = "0: server h:/s/1 h:/s/2 end";
    assert_eq!(shown(&filled.steps), ["0: make", server, "0: activate"]);
    let steps = filled.steps.iter().map(|placed| placed.step.clone()).collect();
    let all = SystemSteps {
        system: recipe.name.clone(),
        dir: "/run/plain".into(),
        context: CommandContext::default(),
        first: 0,
        has_program: false,
        steps,
    };
    let again: Vec<_> =
        all.that_start_again().steps.into_iter().map(|step| PlacedStep { host: 0, step }).collect();
    assert_eq!(shown(&again), [server, "0: activate"]);
}

#[test]
fn stores_server_state_on_disk() {
    let mut recipe = recipe();
    recipe.folders = vec!["{state}/names".to_owned(), "{state}/maps".to_owned()];
    assert_eq!(recipe.problems(), []);
    let on_storage = recipe.fill_in(&[], &places()).unwrap();
    assert_eq!(on_storage.hosts[0].folders, ["/s/state", "/s/state/names", "/s/state/maps"]);
    recipe.storage = false;
    assert_eq!(recipe.problems(), []);
    let state = "/run/dfsbench/systems/plain/state";
    let elsewhere = recipe.fill_in(&[], &places()).unwrap();
    let expected = [state.to_owned(), format!("{state}/names"), format!("{state}/maps")];
    assert_eq!(elsewhere.hosts[0].folders, expected);
}

#[test]
fn starts_only_what_access_needs() {
    let mut recipe = recipe();
    let gateway = RecipeStep {
        start: words("gateway"),
        access: Some(AccessWay::Nfs),
        ..RecipeStep::default()
    };
    recipe.steps.push(RecipeStep { within_s: 1, ..gateway });
    let no_way = recipe.problems()[0].to_string();
    assert!(no_way.starts_with("step 2.access: nfs "), "{no_way}");
    recipe.access.nfs = Some(NfsAccess {
        port: 9,
        export: "/x".to_owned(),
        programs: vec!["gateway".to_owned()],
        ..NfsAccess::default()
    });
    assert_eq!(recipe.problems(), []);
    for (way, steps, programs) in [(AccessWay::Fuse, 1, 0), (AccessWay::Nfs, 2, 1)] {
        let filled = recipe.fill_in(&[], &Places { way: Some(way), ..places() }).unwrap();
        let host = &filled.hosts[0];
        assert_eq!(
            (filled.steps.len(), host.programs.len(), host.ports.len()),
            (steps, programs, programs)
        );
    }
}

#[test]
fn assigns_hosts_to_roles() {
    let mut recipe = recipe();
    recipe.storage = false;
    let role = Role {
        meaning: "keeps files".to_owned(),
        hosts_max: 3,
        storage: true,
        programs: vec!["keeper".to_owned()],
        ports: vec![7],
    };
    recipe.roles.insert("data".to_owned(), role);
    recipe.files[0].text = "of {host}".to_owned();
    recipe.steps[0].on = "data".to_owned();
    recipe.steps[0].count = "{parts}".to_owned();
    let list = recipe.variables.get_mut("list").unwrap();
    list.repeat = "{host}:{storage}/{n}".to_owned();
    list.on = "data".to_owned();
    assert_eq!(recipe.problems(), []);
    // A role without hosts of its own runs on the server.
    let alone = recipe.fill_in(&[], &places()).unwrap();
    let copy = |host: usize, list: &str| format!("{host}: server {list} end");
    assert_eq!(shown(&alone.steps), [copy(0, "h:/s/1 h:/s/2"), copy(0, "h:/s/1 h:/s/2")]);
    assert_eq!((alone.hosts[0].has_storage, alone.hosts[0].ports.as_slice()), (true, &[7][..]));
    let apart = Places {
        hosts: ["h", "a", "b"].map(str::to_owned).to_vec(),
        servers: 3,
        roles: [("data".to_owned(), vec![1, 2])].into(),
        ..places()
    };
    let filled = recipe.fill_in(&given("parts", "3"), &apart).unwrap();
    let list = "a:/s/1 b:/s/2 a:/s/3";
    assert_eq!(shown(&filled.steps), [copy(1, list), copy(2, list), copy(1, list)]);
    let [server, first, second] = filled.hosts.as_slice() else { panic!("{filled:?}") };
    assert_eq!(server.folders, ["/run/dfsbench/systems/plain/a"]);
    assert_eq!((server.has_storage, server.programs.len()), (false, 0));
    assert_eq!((first.has_storage, &first.programs[..]), (true, &["keeper".to_owned()][..]));
    assert_eq!(first.folders.len(), 4);
    assert_eq!((first.files[0].text.as_str(), second.files[2].text.as_str()), ("of a", "of b"));
    recipe.check_role("data", 3).unwrap();
    assert!(recipe.check_role("data", 4).unwrap_err().to_string().contains("at most 3"));
    assert!(recipe.check_role("other", 1).unwrap_err().to_string().contains("(hint: data)"));
}

#[test]
fn gives_clients_their_part() {
    let mut recipe = recipe();
    let role = Role {
        meaning: "mounts".to_owned(),
        hosts_max: 9,
        programs: vec!["helper".to_owned()],
        ..Role::default()
    };
    recipe.roles.insert(CLIENT_ROLE.to_owned(), role);
    let start = vec!["helper".to_owned(), "{host}".to_owned(), "{n}".to_owned()];
    let on = CLIENT_ROLE.to_owned();
    recipe.steps.insert(0, RecipeStep { start, on, within_s: 1, ..RecipeStep::default() });
    recipe.steps.insert(
        1,
        RecipeStep {
            run: vec!["look".to_owned()],
            on: "all".to_owned(),
            within_s: 1,
            ..RecipeStep::default()
        },
    );
    assert_eq!(recipe.problems(), []);
    let shown_on = |clients: Vec<usize>| {
        let places = Places {
            hosts: ["h", "a", "b"].map(str::to_owned).to_vec(),
            roles: [(CLIENT_ROLE.to_owned(), clients)].into(),
            ..places()
        };
        let filled = recipe.fill_in(&[], &places).unwrap();
        let programs: Vec<usize> = filled.hosts.iter().map(|host| host.programs.len()).collect();
        (shown(&filled.steps), programs)
    };
    let (steps, programs) = shown_on(vec![1, 2]);
    // `all` hosts are the servers, without clients.
    assert_eq!(steps[..4], ["1: helper a 1", "2: helper b 2", "0: look", &steps[3]]);
    assert!(steps[3].starts_with("0: server"), "{steps:?}");
    assert_eq!(programs, [0, 1, 1]);
    assert_eq!(shown_on(vec![0]).0[..2], ["0: helper h 1", "0: look"]);
    // Our own client mounts nothing, so no host has the client role.
    assert_eq!(shown_on(Vec::new()).0[0], "0: look");
    let placed = recipe.check_role(CLIENT_ROLE, 1).unwrap_err().to_string();
    recipe.roles.get_mut(CLIENT_ROLE).unwrap().storage = true;
    let keeps = recipe.problems()[0].to_string();
    insta::assert_snapshot!([placed, keeps].join("\n"));
}

#[test]
fn rejects_unknown_or_excessive_settings() {
    let recipe = recipe();
    let refused =
        |given: &[(String, String)]| recipe.check_settings(given).unwrap_err().to_string();
    let errors = [
        given("x", "1"),
        given("layout", "x"),
        given("parts", "5"),
        [given("parts", "1"), given("parts", "2")].concat(),
    ]
    .map(|given| refused(&given));
    insta::assert_snapshot!(errors.join("\n"));
    recipe.check_settings(&given("parts", "4")).unwrap();
}

#[test]
fn restarts_for_cold_caches() {
    let mut recipe = recipe();
    recipe.caches.cold = Invalidation::ServerRestart;
    assert_eq!(recipe.problems()[0].key, "caches.cold");
    recipe.restart = Restart::AllSteps;
    assert_eq!(recipe.problems(), []);
}

#[test]
fn names_all_mistakes_at_once() {
    let mut recipe = recipe();
    recipe.title.clear();
    recipe.path.extend(["~/go/bin".to_owned(), "go/bin".to_owned()]);
    recipe.ports.push(0);
    recipe.steps[0].start.extend(["{nothing}".to_owned(), "{*never}".to_owned()]);
    recipe.folders.extend(["/etc/x".to_owned(), "{dir}/{no}".to_owned()]);
    recipe.settings.get_mut("layout").unwrap().meaning.clear();
    let keys: Vec<String> = recipe.problems().into_iter().map(|problem| problem.key).collect();
    assert_eq!(
        keys,
        ["title", "settings.layout.meaning", "path", "ports", "folders", "step 1.start", "folders"]
    );
}

/// A recipe with all steps for data that it holds back.
fn writing_back() -> Recipe {
    let mut recipe = recipe();
    let (run, check) = (words("flush {parts}"), words("queue {host}"));
    recipe.drain = Some(Drain { run, check, within_s: 9, ..Drain::default() });
    let (run, check) = (words("drop"), words("used"));
    recipe.evict = Some(Evict { run, check, empty: "0".to_owned(), ..Evict::default() });
    recipe.object = Some(ObjectCheck { run: words("head {address}/{file}"), within_s: 9 });
    recipe
}

#[test]
fn fills_in_steps_for_held_data() {
    let recipe = writing_back();
    assert_eq!(recipe.problems(), []);
    let filled = recipe.fill_in(&[], &places()).unwrap();
    let drain = filled.drain.unwrap();
    assert_eq!(
        (drain.run, drain.check),
        (vec![(0, words("flush 2"))], vec![(0, words("queue h"))])
    );
    assert_eq!(filled.evict.unwrap().check, [(0, words("used"))]);
    // The path of the file is not known yet.
    assert_eq!(filled.object.unwrap().run, words("head h/{file}"));
}

#[test]
fn accepts_role_that_only_drains_or_evicts() {
    let role = Role { meaning: "mounts".to_owned(), hosts_max: 9, ..Role::default() };
    let unused = {
        let mut recipe = writing_back();
        recipe.roles.insert(CLIENT_ROLE.to_owned(), role);
        recipe
    };
    assert_eq!(unused.problems()[0].key, "roles.client");
    let mut drains = unused.clone();
    CLIENT_ROLE.clone_into(&mut drains.drain.as_mut().unwrap().on);
    let mut evicts = unused;
    CLIENT_ROLE.clone_into(&mut evicts.evict.as_mut().unwrap().on);
    assert_eq!((drains.problems(), evicts.problems()), (Vec::new(), Vec::new()));
    let roles = [(CLIENT_ROLE.to_owned(), vec![1])].into();
    let two = Places { hosts: vec!["h".to_owned(), "c".to_owned()], roles, ..places() };
    assert_eq!(drains.fill_in(&[], &two).unwrap().drain.unwrap().check, [(1, words("queue c"))]);
    assert_eq!(evicts.fill_in(&[], &two).unwrap().evict.unwrap().run, [(1, words("drop"))]);
}

#[test]
fn names_mistakes_about_held_data() {
    let mistake = |change: &dyn Fn(&mut Recipe)| {
        let mut recipe = writing_back();
        change(&mut recipe);
        let problems = recipe.problems();
        assert_eq!(problems.len(), 1, "{problems:?}");
        problems[0].to_string()
    };
    let mistakes = [
        mistake(&|recipe| recipe.drain.as_mut().unwrap().check.clear()),
        mistake(&|recipe| recipe.drain.as_mut().unwrap().within_s = 0),
        mistake(&|recipe| recipe.drain.as_mut().unwrap().on = "data".to_owned()),
        mistake(&|recipe| recipe.drain.as_mut().unwrap().check = words("queue {file}")),
        mistake(&|recipe| recipe.evict.as_mut().unwrap().run.clear()),
        mistake(&|recipe| recipe.evict.as_mut().unwrap().check.clear()),
        mistake(&|recipe| recipe.evict.as_mut().unwrap().empty.clear()),
        mistake(&|recipe| recipe.object.as_mut().unwrap().run = words("head")),
        mistake(&|recipe| recipe.object.as_mut().unwrap().run = words("head {n}{file}")),
        mistake(&|recipe| recipe.object.as_mut().unwrap().within_s = 100_000),
    ];
    insta::assert_snapshot!(mistakes.join("\n"));
}

#[test]
fn fills_in_secrets_as_markers() {
    let mut recipe = recipe();
    let source = SecretSource { file: "~/.key".to_owned(), ..SecretSource::default() };
    recipe.secrets.insert("key".to_owned(), source.clone());
    recipe.environment.insert("KEY".to_owned(), "{key}@{address}".to_owned());
    recipe.files[0].text = "key = {key}".to_owned();
    assert_eq!(recipe.problems(), []);
    let filled = recipe.fill_in(&[], &places()).unwrap();
    let host = &filled.hosts[0];
    assert!(host.files[0].text.ends_with(&source.marker()), "{:?}", host.files);
    let expected = format!("{}@{}", source.marker(), places().hosts[0]);
    assert_eq!(host.environment, [("KEY".to_owned(), expected)]);
    assert_eq!(host.environment, filled.client_environment);
}

#[test]
fn requires_tried_or_reason() {
    let problems = |tried: &str, not_tried: &str| {
        let mut recipe = recipe();
        recipe.tried = tried.to_owned();
        recipe.not_tried = not_tried.to_owned();
        recipe.problems().iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    };
    assert_eq!(problems("1.2, Debian 13", ""), "");
    assert_eq!(problems("", "no packages"), "");
    assert!(problems("", "").contains("tried: must be one line"), "{}", problems("", ""));
    let both = problems("1.2, Debian 13", "no packages");
    assert!(both.contains("not_tried: cannot be combined with `tried`"), "{both}");
    let two_lines = problems("", "no\npackages");
    assert!(two_lines.contains("must be one line"), "{two_lines}");
}

#[test]
fn names_each_recipe_mistake() {
    fn mistake(change: impl FnOnce(&mut Recipe)) -> String {
        let mut recipe = recipe();
        change(&mut recipe);
        recipe.problems()[0].to_string()
    }
    let role = |name: &str| {
        let role = Role { meaning: "x".to_owned(), hosts_max: 9, ..Role::default() };
        (name.to_owned(), role)
    };
    let mut mistakes = vec![
        mistake(|recipe| recipe.steps[0].start.push("{nothing}".to_owned())),
        mistake(|recipe| recipe.steps[0].start.push("{n}".to_owned())),
        mistake(|recipe| recipe.steps[0].start.push("{point}".to_owned())),
        mistake(|recipe| recipe.steps[0].port = "1".to_owned()),
        mistake(|recipe| recipe.steps[0].again = true),
        mistake(|recipe| recipe.steps.clear()),
        mistake(|recipe| recipe.caches.cold = Invalidation::ServerRestart),
        mistake(|recipe| {
            recipe.caches.cold = Invalidation::ServerRemount;
            recipe.restart = Restart::OnState;
        }),
        mistake(|recipe| recipe.access.fuse = None),
        mistake(|recipe| recipe.name = "A b".to_owned()),
        mistake(|recipe| recipe.ports.push(0)),
        mistake(|recipe| recipe.roles.extend([role("data")])),
        mistake(|recipe| recipe.roles.extend([role("all")])),
        mistake(|recipe| recipe.steps[0].on = "data".to_owned()),
        mistake(|recipe| {
            recipe.steps[0].on = "all".to_owned();
            recipe.steps[0].count = "2".to_owned();
        }),
        mistake(|recipe| recipe.storage = false),
        mistake(|recipe| recipe.folders.push("/etc/x".to_owned())),
        mistake(|recipe| recipe.files[0].path = "{dir}/../x".to_owned()),
    ];
    for path in ["/", "/etc/x", "/var/lib/", "/run/a/../b", "/run/dfsbench/x", "/var/lib/dfsbench"]
    {
        mistakes.push(mistake(|recipe| recipe.leaves.push(path.to_owned())));
    }
    mistakes.extend([
        mistake(|recipe| {
            recipe.variables.get_mut("words").unwrap().values.remove("two");
        }),
        mistake(|recipe| {
            recipe.settings.get_mut("parts").unwrap().default = "9".to_owned();
        }),
        mistake(|recipe| {
            let setting = recipe.settings["parts"].clone();
            recipe.settings.insert("storage".to_owned(), setting);
        }),
    ]);
    let with_secret = |change: &dyn Fn(&mut Recipe)| {
        mistake(|recipe| {
            let source = SecretSource { env: "S3_KEY".to_owned(), ..SecretSource::default() };
            recipe.secrets.insert("key".to_owned(), source);
            change(recipe);
        })
    };
    let key = || "{key}".to_owned();
    mistakes.extend([
        with_secret(&|recipe| recipe.steps[0].start.push("--key={key}".to_owned())),
        with_secret(&|recipe| recipe.steps[0].start.push("{*key}".to_owned())),
        with_secret(&|recipe| recipe.version.push(key())),
        with_secret(&|recipe| recipe.files[0].path = "{dir}/{key}".to_owned()),
        with_secret(&|recipe| recipe.access.fuse.as_mut().unwrap().run.push(key())),
        with_secret(&|recipe| recipe.secrets.get_mut("key").unwrap().file = "/x".to_owned()),
        with_secret(&|recipe| {
            recipe.environment.insert("PATH".to_owned(), key());
        }),
        with_secret(&|recipe| {
            recipe.environment.insert("A-B".to_owned(), key());
        }),
        with_secret(&|recipe| {
            let source = recipe.secrets["key"].clone();
            recipe.secrets.insert("parts".to_owned(), source);
        }),
    ]);
    insta::assert_snapshot!(mistakes.join("\n"));
}
