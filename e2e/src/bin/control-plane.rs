//! Starts a control plane to be used by hand, until standard input ends or it is interrupted; see `e2e::control_plane`.

use std::io::{Read, Write};
use std::time::Instant;

use anyhow::{Result, bail};
use e2e::components::{Component, locate};
use e2e::control_plane::{ControlPlane, Settings};

const USAGE: &str = "usage: control-plane [--controller-manager] [--all-apis] [KUBE-APISERVER-ARGUMENT...]";

#[tokio::main]
async fn main() -> Result<()> {
    let mut settings = Settings::default();
    for argument in std::env::args().skip(1) {
        match argument.as_str() {
            "--controller-manager" => settings.controller_manager = true,
            "--all-apis" => settings.all_apis = true,
            "-h" | "--help" => bail!(USAGE),
            other if other.starts_with("--") && other.contains('=') => {
                settings.apiserver_arguments.push(argument);
            }
            other => bail!("unknown argument {other}\n{USAGE}"),
        }
    }
    let start = Instant::now();
    let control_plane = ControlPlane::start(settings).await?;
    let mut output = std::io::stdout();
    writeln!(output, "ready after {:.1} s at {}", start.elapsed().as_secs_f64(), control_plane.endpoint().base())?;
    let kubectl = locate(Component::Kubectl)?;
    writeln!(output, "{} --kubeconfig {} api-resources", kubectl.display(), control_plane.kubeconfig().display())?;
    writeln!(output, "it stops when standard input ends (ctrl-D)")?;
    // Whatever is typed means nothing; only the end does. Blocking is fine: nothing else runs here.
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
