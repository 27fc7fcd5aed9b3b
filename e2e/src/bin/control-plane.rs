//! Starts a control plane to be used by hand, until standard input ends or it is interrupted; see `e2e::control_plane`.

use std::io::{Read, Write};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use e2e::components::{Component, locate};
use e2e::control_plane::{ControlPlane, Settings};
use e2e::corpus::load;
use e2e::corpus::shirts::Shirts;

const USAGE: &str = "\
usage: control-plane [--controller-manager] [--all-apis] [--shirts N] [KUBE-APISERVER-ARGUMENT...]

  --controller-manager  run kube-controller-manager too
  --all-apis            serve alpha and beta APIs too
  --shirts N            hold N objects of the shirt corpus, written straight to etcd";

#[tokio::main]
async fn main() -> Result<()> {
    let mut settings = Settings::default();
    let mut shirts = None;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--controller-manager" => settings.controller_manager = true,
            "--all-apis" => settings.all_apis = true,
            "--shirts" => {
                let count = arguments.next().context("--shirts needs a number")?;
                shirts = Some(Shirts { count: count.parse().context("--shirts")?, ..Shirts::default() });
            }
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
    if let Some(shirts) = shirts {
        let start = Instant::now();
        load::shirts_into_etcd(&control_plane, &shirts, |_| {}).await?;
        writeln!(output, "{} shirts after {:.1} s more", shirts.count, start.elapsed().as_secs_f64())?;
    }
    let kubectl = locate(Component::Kubectl)?;
    writeln!(output, "{} --kubeconfig {} api-resources", kubectl.display(), control_plane.kubeconfig().display())?;
    writeln!(output, "it stops when standard input ends (ctrl-D)")?;
    // Whatever is typed means nothing; only the end does. Blocking is fine: nothing else runs here.
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
