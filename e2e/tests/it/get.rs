//! `fieldcache get` beside kubectl: at a kube-apiserver, at a fieldcache in front of it, at a View, and of a folder, it
//! prints what kubectl prints, byte by byte. Only the exit code of an empty list differs, and quotes in YAML, which
//! fieldcache writes around every text that a parser could read as something else.
//!
//! At a kube-apiserver, a query that only fieldcache answers is an error. kube-apiserver ignores its parameters.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::control_plane::{ControlPlane, Settings};
use e2e::eventually::eventually;
use e2e::fieldcache::Fieldcache;
use e2e::kubectl::Finished;
use e2e::objects;
use e2e::shell::Shell;
use e2e::viewed::Viewed;
use serde_json::{Value, json};

use super::commands::stage::repository;
use super::kubectl_beside::{GROUP, NAMESPACES, definition, fill};

const SOON: Duration = Duration::from_secs(60);

/// What all servers have: arguments that kubectl and fieldcache read alike.
const EVERYWHERE: &str = "
pods
pods -A
pods -A -o wide
pods -A --show-labels
pods -A -L app,example.com/none
pods -A -L a,app
pods -A -l app=shop
pods -n east --field-selector status.phase=Pending
pods -n east --field-selector status.phase=Running
pods -A -o name
pods -n east --no-headers
po pod -n east
pod/pod -n east
shirts
shirts -A
shirts -A -o wide --show-labels
shirts -A -l team=sea
shirts -A -l 'team notin (sea)' --field-selector spec.color=green
shirts -A --field-selector spec.color=blue,metadata.namespace!=default
shirts.v1.beside.example.com -n east
shirts.beside.example.com a d -n east
Shirt -n west -o yaml
sh a -n east -o yaml
shirts/a shirts/b pods/pod -n west
pods,shirts -n east
shirts,pods -A -L team
shirts,pods -A -o name
shirts -A --chunk-size 5 -o name
shirts -A --chunk-size 0
shirts -n nosuch
pods,shirts -n nosuch
shirts -A -l no=such
namespaces
ns -o wide --show-labels
namespaces -A
namespace default east -o yaml
ns -l kubernetes.io/metadata.name=west
";

/// What the View does not show.
const WHOLE: &str = "
nodes
nodes -A
deployments -A -o wide
statefulsets,services -A
crd -o wide
configmaps,secrets -n east
serviceaccounts,roles -A
apiservices
";

/// kubectl and fieldcache at one server.
struct Server {
    name: &'static str,
    shell: Shell,
    /// The options for both that name the server.
    options: String,
}

impl Server {
    /// A server that a kubeconfig in the environment names.
    fn with_kubeconfig(name: &'static str, kubeconfig: &Value) -> Result<Server> {
        Ok(Server { name, shell: Shell::with_kubeconfig(kubeconfig)?, options: String::new() })
    }

    /// A server without authentication.
    fn with_url(name: &'static str, url: &str) -> Result<Server> {
        let shell = Shell::with_kubeconfig(&json!({ "apiVersion": "v1", "kind": "Config" }))?;
        Ok(Server { name, shell, options: format!("--server {url}") })
    }

    async fn get(&self, program: &str, arguments: &str) -> Result<Finished> {
        self.shell.run(&format!("{program} get {arguments} {}", self.options)).await
    }

    /// Compares both programs. Ages count on between the two, so it tries until both print the same age.
    async fn same(&self, arguments: &str) -> Result<()> {
        let what = format!("{}: get {arguments}", self.name);
        let both = async || {
            let theirs = self.get("kubectl", arguments).await?;
            let ours = self.get("fieldcache", arguments).await?;
            let is_empty = theirs.stdout.is_empty() && theirs.stderr.starts_with("No resources found");
            let expected = Finished { exit_code: i32::from(is_empty), ..theirs };
            let is_yaml = arguments.ends_with("-o yaml");
            let text = |text: &str| if is_yaml { text.replace('"', "") } else { text.to_owned() };
            let comparable = |side: &Finished| (side.exit_code, text(&side.stdout), side.stderr.clone());
            ensure!(
                comparable(&expected) == comparable(&ours),
                "\n{}{}\n<>\n{}{}",
                expected.stdout,
                expected.stderr,
                ours.stdout,
                ours.stderr
            );
            Ok(())
        };
        eventually(&what, SOON, both).await
    }

    /// The names that a list has, in its order.
    async fn names(&self, arguments: &str) -> Result<String> {
        let finished = self.get("fieldcache", &format!("{arguments} -o name")).await?;
        ensure!(finished.exit_code == 0, "{}: {arguments}: {finished:?}", self.name);
        let names: Vec<&str> = finished.stdout.lines().filter_map(|line| line.split('/').nth(1)).collect();
        Ok(names.join(" "))
    }

    async fn prints(&self, arguments: &str, expected: &str) -> Result<()> {
        let finished = self.get("fieldcache", arguments).await?;
        ensure!(finished.exit_code == 0 && finished.stdout == expected, "{}: {arguments}: {finished:?}", self.name);
        Ok(())
    }
}

/// Compares all lines at a server. Returns their number.
async fn compare(server: &Server, lines: &str) -> Result<usize> {
    let (mut differing, mut count) = (Vec::new(), 0);
    for line in lines.lines().filter(|line| !line.is_empty()) {
        count += 1;
        if let Err(error) = server.same(line).await {
            differing.push(format!("{error:#}"));
        }
    }
    ensure!(differing.is_empty(), "{} of {count} commands differ:\n{}", differing.len(), differing.join("\n\n"));
    Ok(count)
}

#[tokio::test(flavor = "multi_thread")]
async fn get_prints_what_kubectl_prints_and_more() -> Result<()> {
    let control_plane = Box::pin(ControlPlane::start(Settings::default())).await?;
    let writer = control_plane.client();
    for namespace in &NAMESPACES[1..] {
        let object = json!({ "kind": "Namespace", "apiVersion": "v1", "metadata": { "name": namespace } });
        objects::create(&writer, "/api/v1/namespaces", &object).await?;
    }
    objects::create_definition(&writer, &definition()).await?;
    fill(&writer).await?;
    let arguments = ["--kubeconfig", &control_plane.kubeconfig().display().to_string(), "--pass-through", "read"];
    let fieldcache = Box::pin(Fieldcache::serve(arguments.map(str::to_owned))).await?;
    let shown = [(GROUP, "shirts"), ("", "pods"), ("", "namespaces")];
    let viewed = Box::pin(Viewed::create(&control_plane, &shown, "Eventual")).await?;
    let identity = control_plane.authority().client("administrator", Some("system:masters"))?;

    let upstream = control_plane.kubeconfig_for(control_plane.endpoint().base());
    let plain = Server::with_kubeconfig("kube-apiserver", &upstream)?;
    let own = Server::with_url("fieldcache", fieldcache.address())?;
    let view = Server::with_kubeconfig("a View", &viewed.kubeconfig_of(&identity)?)?;
    let mut count = 0;
    for server in [&plain, &own, &view] {
        count += compare(server, EVERYWHERE).await?;
    }
    for server in [&plain, &own] {
        count += compare(server, WHOLE).await?;
        let json = |program| server.get(program, "pods,shirts -A -o json");
        let [theirs, ours] = [json("kubectl").await?, json("fieldcache").await?];
        let read = |finished: &Finished| serde_json::from_str::<Value>(&finished.stdout).context(server.name);
        ensure!(read(&theirs)? == read(&ours)?, "{}: JSON differs", server.name);
    }
    println!("get: {count} commands print the same as kubectl");

    for server in [&own, &view] {
        own_queries(server).await?;
    }
    // Not at the View, which may have no expressions in lists.
    let expression = "shirts -A --where \"self.spec.color == 'red' || self.spec.count > 15\"";
    ensure!(own.names(expression).await? == "b d b d b d", "CEL");
    let unwatched = own.get("fieldcache", "componentstatuses").await?;
    ensure!(unwatched.exit_code == 2 && unwatched.stderr.contains("serves no resource"), "{unwatched:?}");

    plain_server(&plain).await
}

/// Queries that only a fieldcache server answers.
async fn own_queries(server: &Server) -> Result<()> {
    for (arguments, expected) in [
        ("shirts -n east --field-selector 'spec.color in (red,green)'", "b d"),
        ("shirts -n east --sort-by -spec.color,{.metadata.name}", "d b a c"),
        ("shirts -n east --sort-by=-.metadata.name --chunk-size 1", "d c b a"),
        ("shirts -A --sort-by metadata.name --limit 4", "a a a b"),
    ] {
        let names = server.names(arguments).await?;
        ensure!(names == expected, "{}: {arguments}: {names}", server.name);
    }
    server.prints("shirts -A --count", "12\n").await?;
    server.prints("shirts -A --count -l team=sea --field-selector 'spec.color^=b'", "6\n").await?;
    server.prints("shirts -n east --columns C:spec.color,metadata.name --no-headers --limit 1", "blue   a\n").await?;
    let selectors = "spec.color=blue\nspec.color=green\nspec.color=red\n";
    server.prints("shirts -A --facets spec.color -o name", selectors).await?;
    let facets = server.get("fieldcache", "shirts -n east --facets spec.color").await?;
    let lines: Vec<&str> = facets.stdout.lines().collect();
    let expected = ["spec.color   COUNT", "blue         2", "green        1", "red          1", "", "total: 4"];
    ensure!(lines == expected, "{}: {facets:?}", server.name);
    let rest = server.get("fieldcache", "shirts -A --limit 5").await?;
    ensure!(rest.stderr == "note: there are 7 more objects, which --limit omits\n", "{rest:?}");
    let missing = server.get("fieldcache", "shirts nosuch a -n east -o name").await?;
    ensure!(missing.exit_code == 2 && missing.stdout == format!("shirt.{GROUP}/a\n"), "{missing:?}");
    ensure!(missing.stderr.contains("returned 404: shirts.beside.example.com \"nosuch\" not found"), "{missing:?}");
    let unknown = server.get("fieldcache", "shirts -A --facets spec.nosuch").await?;
    ensure!(unknown.exit_code == 2 && unknown.stderr.contains("field label not supported: spec.nosuch"), "{unknown:?}");
    Ok(())
}

/// A server that ignores unknown query parameters.
async fn plain_server(server: &Server) -> Result<()> {
    server.prints("shirts -A --count", "12\n").await?;
    server.prints("pods -n east --count", "1\n").await?;
    server.prints("shirts -n east --columns C:spec.color,metadata.name --no-headers --limit 1", "blue   a\n").await?;
    for (arguments, option) in [
        ("shirts -A --where 'self.spec.count > 10'", "--where"),
        ("pods -A --where true -o json", "--where"),
        ("shirts -A --sort-by spec.color", "--sort-by"),
        ("pods -A --sort-by -spec.nodeName -o name", "--sort-by"),
        ("shirts -A --facets spec.color", "--facets"),
        ("pods -A --facets status.phase -o yaml", "--facets"),
        ("shirts -A --count -l team=sea", "selectors with --count"),
        ("pods -A --count --field-selector status.phase=Pending", "selectors with --count"),
        ("pods -A --count --where true", "selectors with --count"),
    ] {
        let finished = server.get("fieldcache", arguments).await?;
        let expected = format!(" does not support {option}, because it is not a fieldcache server");
        ensure!(finished.exit_code == 2 && finished.stdout.is_empty(), "{arguments}: {finished:?}");
        ensure!(finished.stderr.contains(&expected), "{arguments}: {finished:?}");
    }
    let operator = server.get("fieldcache", "shirts -A --field-selector 'spec.color in (blue)'").await?;
    ensure!(operator.exit_code == 2 && operator.stderr.contains("returned 400"), "{operator:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn get_of_a_folder_prints_what_kubectl_prints_of_its_server() -> Result<()> {
    let folder = repository("manifests/samples");
    let fieldcache = Box::pin(Fieldcache::serve_folder(folder.as_ref())).await?;
    let served = Server::with_url("a folder", fieldcache.address())?;
    for arguments in [
        "pods -A",
        "pods -A -o wide --show-labels",
        "pods -n team-a -l app=shop",
        "shirts -A",
        "shirts -A --field-selector spec.color=blue -L tier",
        "shirts -n team-b -o wide",
        "shirts,pods -n team-b",
        "shirts -A -o name",
        "shirts -l no=such",
    ] {
        let theirs = async || {
            let theirs = served.get("kubectl", arguments).await?;
            let ours = served.shell.run(&format!("kubectl fieldcache get {arguments} --dir {folder}")).await?;
            ensure!(theirs.stdout == ours.stdout && theirs.stderr == ours.stderr, "\n{theirs:?}\n<>\n{ours:?}");
            Ok(())
        };
        eventually(arguments, SOON, theirs).await?;
    }
    let sorted = "fieldcache get shirts -A --sort-by -spec.size --where 'self.spec.branded' -o name --dir";
    let sorted = served.shell.succeed(&format!("{sorted} {folder}")).await?;
    ensure!(sorted == "shirt.stable.example.com/example4\nshirt.stable.example.com/example1\n", "{sorted}");
    Ok(())
}
