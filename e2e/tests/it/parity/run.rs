//! Everything requested and played once, on all sides, and kept. Both what must be green and what must be red are
//! derived from this.
//!
//! The request cases come first, then the scripts, which make objects that some of the cases would see.

use anyhow::{Result, anyhow, ensure};
use e2e::compare::differences;
use e2e::http::{Client, Protocol};
use futures::future::{join, join_all};
use futures::stream::{self, StreamExt};
use serde_json::Value;
use tokio::sync::OnceCell;

use super::case::Case;
use super::cases;
use super::other_versions::without_events_never_sent;
use super::script::{self, Found, Played, Script};
use super::scripts;
use super::side::{Side, Tape};
use super::stage::Stage;

/// Cases and scripts under way at once: much of their time is waiting.
const AT_ONCE: usize = 8;

/// Where kube-apiserver itself and fieldcache stand among the sides.
pub(crate) const ITSELF: usize = 0;
pub(crate) const FIELDCACHE: usize = 1;
pub(crate) const FIELDCACHE_NAME: &str = "fieldcache";
const OVER_HTTP2: usize = 2;

/// The answers to one case.
pub(crate) struct CaseResult {
    pub(crate) case: Case,
    pub(crate) expected: Value,
    /// In the order of the sides.
    answers: Vec<Value>,
    /// What fieldcache was requested and answered.
    pub(crate) tape: Tape,
}

/// All of it.
pub(crate) struct Run {
    /// Where the random scripts began.
    pub(crate) seed: u64,
    pub(crate) scripts: usize,
    pub(crate) cases: Vec<CaseResult>,
    pub(crate) played: Vec<Played>,
}

impl Run {
    /// The one run of this test binary, made by the first test that needs it.
    ///
    /// # Errors
    /// When kube-apiserver itself or the stage fails; every later asker gets the same error.
    pub(crate) async fn shared(stage: &Stage) -> Result<&'static Run> {
        static SHARED: OnceCell<Result<Run, String>> = OnceCell::const_new();
        let made = SHARED.get_or_init(async || Box::pin(make(stage)).await.map_err(|error| format!("{error:#}")));
        made.await.as_ref().map_err(|error| anyhow!("{error}"))
    }

    /// What every side but the reference has otherwise than the reference.
    pub(crate) fn judge(&self, sides: &[Side]) -> Vec<Found> {
        let mut found = Vec::new();
        for result in &self.cases {
            for (side, answer) in sides.iter().zip(&result.answers) {
                let mut answer = answer.clone();
                without_events_never_sent(&result.expected, &mut answer);
                let differences = differences(&result.expected, &answer);
                let (watch, context) = (result.case.name.clone(), result.case.path.clone());
                found.push(Found { side: side.name, watch, differences, context });
            }
        }
        for played in &self.played {
            for (name, recorded) in &played.sides {
                let Some(side) = sides.iter().find(|side| side.name == *name) else { continue };
                let differences = played.judge(side, recorded);
                let context = if differences.is_empty() { String::new() } else { played.in_short(recorded) };
                found.push(Found { side: side.name, watch: played.name.clone(), differences, context });
            }
        }
        found
    }
}

/// kube-apiserver, with which all others are compared.
pub(crate) fn reference(stage: &Stage) -> Side {
    side("kube-apiserver", stage.control_plane.client(), true)
}

/// The header with which a client says how fresh an answer must be.
const CONSISTENCY: &str = "fieldcache-consistency";

/// The others, with connections of their own.
pub(crate) fn sides(stage: &Stage) -> Vec<Side> {
    let endpoint = stage.fieldcache.endpoint().clone();
    // One object without a version is forwarded, unless the client accepts the store, as one side does here.
    let copy = endpoint.clone().with_header(CONSISTENCY, "Eventual");
    let chained = stage.chained.endpoint().clone().with_header(CONSISTENCY, "Eventual");
    vec![
        side("kube-apiserver itself", stage.control_plane.client(), true),
        side(FIELDCACHE_NAME, copy.client(), false),
        side("fieldcache over HTTP/2", endpoint.speaking(Protocol::Http2).client(), false),
        side("a fieldcache that reads a fieldcache", chained.client(), false),
    ]
}

/// kube-apiserver and fieldcache, with watches over WebSocket. Only scripts are played on them.
pub(crate) fn websocket_sides(stage: &Stage) -> [Side; 2] {
    let client = stage.fieldcache.endpoint().client();
    [
        side("kube-apiserver over WebSocket", stage.control_plane.client(), true),
        side("fieldcache over WebSocket", client, false),
    ]
    .map(|side| Side { by_websocket: true, ..side })
}

fn side(name: &'static str, client: Client, is_reference: bool) -> Side {
    Side { name, client, defect: None, is_reference, by_websocket: false, tape: None }
}

async fn make(stage: &Stage) -> Result<Run> {
    let (reference_side, compared_sides) = (&reference(stage), &sides(stage));
    let runs = cases::all().into_iter().map(|case| async move {
        let mut sides = compared_sides.clone();
        let tape = Tape::default();
        sides[FIELDCACHE].tape = Some(tape.clone());
        let answers = join_all(sides.iter().map(|side| case.outcome(side, &stage.variables)));
        let (expected, answers) = join(case.outcome(reference_side, &stage.variables), answers).await;
        let expected = expected?;
        ensure!(expected["no answer"].is_null(), "{}: kube-apiserver itself: {}", case.name, expected["no answer"]);
        Ok(CaseResult { answers: answers.into_iter().collect::<Result<_>>()?, case, expected, tape })
    });
    let cases: Vec<Result<CaseResult>> = stream::iter(runs).buffered(3 * AT_ONCE).collect().await;
    let seed = scripts::random::seed();
    let scripts = scripts::all(seed);
    let playing = scripts.iter().enumerate().map(|(number, script)| play(stage, number, script));
    let played: Vec<Result<Vec<Played>>> = stream::iter(playing).buffered(AT_ONCE).collect().await;
    let mut broken = String::new();
    let cases = sound(cases, &mut broken);
    let played = sound(played, &mut broken).into_iter().flatten().collect();
    ensure!(broken.is_empty(), "seed {seed}{broken}");
    Ok(Run { seed, scripts: scripts.len(), cases, played })
}

/// Plays a script on fieldcache, on the end of the chain, on fieldcache and kube-apiserver over WebSocket, and, in turn, on
/// kube-apiserver once more or on fieldcache by another protocol.
async fn play(stage: &Stage, number: usize, script: &Script) -> Result<Vec<Played>> {
    // Connections of its own, one for all watches of kube-apiserver: handshakes would be most of its work.
    let endpoint = stage.control_plane.endpoint().clone().speaking(Protocol::Http2);
    let reference = Side { client: endpoint.client(), ..reference(stage) };
    let mut sides = sides(stage);
    sides.remove(if number.is_multiple_of(2) { ITSELF } else { OVER_HTTP2 });
    sides.extend(websocket_sides(stage));
    let copies = [stage.fieldcache.client(), stage.chained.client()];
    script::play(script, &reference, &sides, &copies, &stage.variables).await
}

/// What succeeded; failures are added to `broken`.
fn sound<Kind>(results: Vec<Result<Kind>>, broken: &mut String) -> Vec<Kind> {
    let mut sound = Vec::new();
    for result in results {
        match result {
            Ok(one) => sound.push(one),
            Err(error) => broken.push_str(&format!("\n{error:#}")),
        }
    }
    sound
}
