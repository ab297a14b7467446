//! The bill of materials (SBOM): everything linked, with versions, hashes and licenses, for
//! machines.
//!
//! **Source:** CycloneDX 1.5, JSON; package URLs of the type `cargo`.

use anyhow::Result;
use serde_json::{Value, json};

use super::Release;
use super::linked::{Crate, LinkedCode, Native};

/// Renders the bill of materials of a release.
pub fn render(release: &Release, linked: &LinkedCode) -> Result<String> {
    let program = format!("pkg:cargo/dfsbench@{}", release.version);
    let mut components = Vec::new();
    let mut dependencies = Vec::new();
    let mut used: Vec<String> = linked.direct.iter().map(|key| crate_url(key)).collect();
    for it in &linked.crates {
        components.push(describe_crate(it));
        let uses: Vec<String> = it.uses.iter().map(|key| crate_url(key)).collect();
        dependencies.push(json!({ "ref": crate_url(&it.key()), "dependsOn": uses }));
    }
    for it in &linked.native {
        components.push(describe_native(it));
        used.push(native_url(it));
    }
    dependencies.insert(0, json!({ "ref": program, "dependsOn": used }));
    let bill = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": release.date()?,
            "component": {
                "type": "application",
                "bom-ref": program,
                "name": "dfsbench",
                "version": release.version,
                "purl": program,
                "licenses": [{ "expression": "Apache-2.0 OR MIT" }],
            },
            "properties": [{ "name": "dfsbench:commit", "value": release.commit }],
        },
        "components": components,
        "dependencies": dependencies,
    });
    Ok(format!("{}\n", serde_json::to_string_pretty(&bill)?))
}

fn describe_crate(it: &Crate) -> Value {
    let url = crate_url(&it.key());
    json!({
        "type": "library",
        "bom-ref": url,
        "name": it.name,
        "version": it.version,
        "purl": url,
        "licenses": [{ "expression": it.license }],
        "hashes": [{ "alg": "SHA-256", "content": it.sha256 }],
    })
}

fn describe_native(it: &Native) -> Value {
    json!({
        "type": "library",
        "bom-ref": native_url(it),
        "name": it.name,
        "version": it.version,
        "purl": native_url(it),
        "licenses": [{ "expression": it.license }],
    })
}

fn crate_url(key: &str) -> String {
    format!("pkg:cargo/{key}")
}

fn native_url(it: &Native) -> String {
    format!("pkg:generic/{}@{}", it.name, it.version)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn resolves_every_reference_of_sbom() {
        let leaf = Crate {
            name: "leaf".to_owned(),
            version: "2.0.0".to_owned(),
            license: "MIT".to_owned(),
            sha256: "ab".repeat(32),
            ..Crate::default()
        };
        let uses = BTreeSet::from([leaf.key()]);
        let stem = Crate { name: "stem".to_owned(), uses, ..leaf.clone() };
        let native = Native { name: "glibc", version: "2.36".to_owned(), license: "LGPL" };
        let direct = BTreeSet::from([stem.key()]);
        let linked = LinkedCode { crates: vec![leaf, stem], native: vec![native], direct };
        let release =
            Release { version: "1.2.3".to_owned(), epoch: 86_400, commit: "c0ffee".to_owned() };
        let text = render(&release, &linked).unwrap();
        assert_eq!(text, render(&release, &linked).unwrap());
        let bill: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(bill["metadata"]["timestamp"], "1970-01-02T00:00:00Z");
        let mut known = vec![bill["metadata"]["component"]["bom-ref"].clone()];
        for component in bill["components"].as_array().unwrap() {
            known.push(component["bom-ref"].clone());
        }
        assert_eq!(known.len(), 4);
        for dependency in bill["dependencies"].as_array().unwrap() {
            assert!(known.contains(&dependency["ref"]), "{dependency}");
            for used in dependency["dependsOn"].as_array().unwrap() {
                assert!(known.contains(used), "{used}");
            }
        }
        assert_eq!(bill["dependencies"][2]["dependsOn"], json!(["pkg:cargo/leaf@2.0.0"]));
    }
}
