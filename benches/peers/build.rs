//! Two of the peers have no migrator: their users copy SQL out of the crates' sources. Tells where those are.

use std::{env, error::Error, path::Path, process::Command};

fn main() -> Result<(), Box<dyn Error>> {
    let output = Command::new(env::var("CARGO")?)
        .args(["metadata", "--format-version", "1"])
        .output()?;
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let packages = metadata["packages"]
        .as_array()
        .ok_or("cargo tells of no packages")?;
    for (name, variable) in [("sqlxmq", "SQLXMQ"), ("fang", "FANG")] {
        let package = packages.iter().find(|package| package["name"] == name);
        let manifest = package.and_then(|package| package["manifest_path"].as_str());
        let folder = manifest.and_then(|manifest| Path::new(manifest).parent());
        println!(
            "cargo:rustc-env={variable}={}",
            folder.ok_or(name)?.display()
        );
    }
    println!("cargo:rerun-if-changed=Cargo.lock");
    Ok(())
}
