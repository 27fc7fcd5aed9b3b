//! What the end of a task means, and which tasks each command starts.

use std::future::{pending, ready};

use super::tasks::{OnEnd, Task, Tasks};

/// A task that panics at once.
fn broken(name: &'static str, on_end: OnEnd) -> Task {
    Task::new(name, on_end, async { panic!("broken") })
}

#[tokio::test]
async fn the_end_of_a_task_ends_the_command_as_it_says() {
    let running = || Task::new("source", OnEnd::Fail, pending());
    let done = || Task::new("server", OnEnd::Finish, async { tokio::task::yield_now().await });
    for (tasks, expected) in [
        (vec![running(), done()], None),
        (vec![running(), broken("server", OnEnd::Finish)], Some("server")),
        (vec![running(), broken("controllers", OnEnd::Fail), Task::new("server", OnEnd::Finish, pending())], Some("controllers")),
        (vec![Task::new("source", OnEnd::Fail, ready(())), Task::new("server", OnEnd::Finish, pending())], Some("source")),
        (vec![running(), broken("metrics", OnEnd::Continue), Task::new("status", OnEnd::Continue, ready(())), done()], None),
    ] {
        let names: Vec<&str> = tasks.iter().map(Task::name).collect();
        let ended = Tasks::start(tasks).ended().await;
        let error = ended.err().map(|error| error.to_string());
        assert_eq!(error.is_some(), expected.is_some(), "{names:?}: {error:?}");
        assert!(error.unwrap_or_default().contains(expected.unwrap_or_default()), "{names:?}");
    }
}

#[tokio::test]
async fn an_aborted_task_has_ended() {
    let (held, ended) = tokio::sync::oneshot::channel::<()>();
    let controllers = Task::new("controllers", OnEnd::Fail, async move {
        let _held = held;
        pending::<()>().await;
    });
    let tasks = Tasks::start([controllers]);
    tasks.abort("controllers");
    assert!(ended.await.is_err());
}
