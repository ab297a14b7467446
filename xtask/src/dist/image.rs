//! The container image: one layer with the program, its plans and its licenses.
//!
//! Written as an OCI layout in one tar archive, which `podman load`, `docker load`, `skopeo copy`
//! and `ctr image import` can read; making it needs no daemon.
//!
//! **Source:** OCI image format 1.1: image-layout, image index, manifest, configuration.

use std::fs;
use std::path::Path;

use anyhow::{Result, bail};
use serde_json::{Value, json};

use super::program::Program;
use super::tree::{Tree, zstd};
use super::{Release, sha256};

/// Working directory of a container: results are written there.
const RESULTS: &str = "results";
/// Directories of a package that an image also has.
const KEPT: [&str; 3] = ["usr/bin/", "usr/share/dfsbench/", "usr/share/doc/"];

/// Returns the name of the image's file.
pub fn name(release: &Release) -> String {
    format!("{}.oci.tar", release.stem())
}

/// Writes the image.
pub fn write(release: &Release, program: &Program, tree: &Tree, folder: &Path) -> Result<()> {
    let layer = layer(release, program, tree)?;
    let image = layout(release, &layer)?;
    fs::write(folder.join(name(release)), image.to_tar(release.epoch)?)?;
    Ok(())
}

/// Creates the only layer, as a tar archive.
fn layer(release: &Release, program: &Program, tree: &Tree) -> Result<Vec<u8>> {
    let mut layer = Tree::default();
    for (path, bytes) in tree.files() {
        if KEPT.iter().any(|folder| path.starts_with(folder)) {
            layer.add_file(path, bytes);
        }
    }
    layer.add_program("usr/bin/dfsbench", program.stripped.clone());
    // Any user may run the container, and works here.
    layer.add_folder(RESULTS, 0o1777);
    layer.add_folder("tmp", 0o1777);
    layer.to_tar(release.epoch)
}

/// Creates the files of the layout.
fn layout(release: &Release, layer: &[u8]) -> Result<Tree> {
    let packed = zstd(layer)?;
    let config = serde_json::to_vec(&configuration(release, layer)?)?;
    let layer_of = describe("application/vnd.oci.image.layer.v1.tar+zstd", &packed);
    let manifest = serde_json::to_vec(&json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": describe("application/vnd.oci.image.config.v1+json", &config),
        "layers": [layer_of],
    }))?;
    let mut described = describe("application/vnd.oci.image.manifest.v1+json", &manifest);
    described["platform"] = json!({ "architecture": architecture()?, "os": "linux" });
    described["annotations"] = json!({
        "io.containerd.image.name": format!("ghcr.io/dfsbench/dfsbench:{}", release.version),
        "org.opencontainers.image.ref.name": release.version,
    });
    let index = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [described],
    });
    let mut files = Tree::default();
    files.add_file("oci-layout", br#"{"imageLayoutVersion":"1.0.0"}"#);
    files.add_file("index.json", serde_json::to_vec(&index)?);
    for blob in [packed, config, manifest] {
        files.add_file(&format!("blobs/sha256/{}", sha256(&blob)), blob);
    }
    Ok(files)
}

fn configuration(release: &Release, layer: &[u8]) -> Result<Value> {
    let created = release.date()?;
    Ok(json!({
        "created": created,
        "architecture": architecture()?,
        "os": "linux",
        "config": {
            "Env": ["PATH=/usr/bin"],
            "Entrypoint": ["/usr/bin/dfsbench"],
            "WorkingDir": format!("/{RESULTS}"),
            "Labels": {
                "org.opencontainers.image.title": "dfsbench",
                "org.opencontainers.image.version": release.version,
                "org.opencontainers.image.revision": release.commit,
                "org.opencontainers.image.source": env!("CARGO_PKG_REPOSITORY"),
                "org.opencontainers.image.licenses": "Apache-2.0 OR MIT",
            },
        },
        "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{}", sha256(layer))] },
        "history": [{ "created": created, "created_by": "cargo xtask dist" }],
    }))
}

fn describe(media_type: &str, blob: &[u8]) -> Value {
    json!({
        "mediaType": media_type,
        "digest": format!("sha256:{}", sha256(blob)),
        "size": blob.len(),
    })
}

/// Returns Go's name for this machine's architecture, which images use.
fn architecture() -> Result<&'static str> {
    match std::env::consts::ARCH {
        "x86_64" => Ok("amd64"),
        "aarch64" => Ok("arm64"),
        other => bail!("images are for x86_64 and aarch64, not for {other}"),
    }
}

/// Reads a blob of an unpacked image, and verifies its hash.
///
/// # Errors
/// If it is missing or differs from its reference.
pub fn read_blob(image: &Path, reference: &Value) -> Result<Vec<u8>> {
    let digest = reference["digest"].as_str().unwrap_or_default();
    let Some(hash) = digest.strip_prefix("sha256:") else { bail!("`{digest}` is not a digest") };
    let bytes = fs::read(image.join("blobs/sha256").join(hash))?;
    anyhow::ensure!(sha256(&bytes) == hash, "a blob of the image does not match {digest}");
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolves_every_reference_of_image() {
        let release =
            Release { version: "1.2.3".to_owned(), epoch: 86_400, commit: "c0ffee".to_owned() };
        let files = layout(&release, b"a layer").unwrap();
        let folder = tempfile::tempdir().unwrap();
        files.write_below(folder.path()).unwrap();
        let index: Value =
            serde_json::from_slice(&fs::read(folder.path().join("index.json")).unwrap()).unwrap();
        let manifest = read_blob(folder.path(), &index["manifests"][0]).unwrap();
        let manifest: Value = serde_json::from_slice(&manifest).unwrap();
        let config = read_blob(folder.path(), &manifest["config"]).unwrap();
        let config: Value = serde_json::from_slice(&config).unwrap();
        let layer = read_blob(folder.path(), &manifest["layers"][0]).unwrap();
        assert_eq!(layer, zstd(b"a layer").unwrap());
        let hash = format!("sha256:{}", sha256(b"a layer"));
        assert_eq!(config["rootfs"]["diff_ids"], json!([hash]));
        assert_eq!(config["config"]["Labels"]["org.opencontainers.image.version"], "1.2.3");
        assert_eq!(config["created"], "1970-01-02T00:00:00Z");

        let mut wrong = manifest["config"].clone();
        wrong["digest"] = manifest["layers"][0]["digest"].clone();
        assert_ne!(read_blob(folder.path(), &wrong).unwrap(), b"");
        let hash = sha256(&zstd(b"a layer").unwrap());
        fs::write(folder.path().join("blobs/sha256").join(hash), "changed").unwrap();
        let error = read_blob(folder.path(), &manifest["layers"][0]).unwrap_err().to_string();
        assert!(error.contains("does not match sha256:"), "{error}");
    }
}
