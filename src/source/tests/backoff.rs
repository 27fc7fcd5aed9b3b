//! Delays grow, stay bounded, and start again after quiet.

use std::time::Duration;

use crate::source::backoff::Backoff;

#[test]
fn delays_double_to_a_bound_and_start_again_after_quiet() {
    for seed in [0, 1, 42, u64::MAX] {
        let mut backoff = Backoff::new(seed);
        let mut base = 800;
        for step in 0..10 {
            let delay = backoff.after_failure(Duration::from_secs(1)).as_millis();
            assert!(
                (base..=2 * base).contains(&delay),
                "seed {seed}, step {step}: {delay} ms is within {base} and twice that"
            );
            base = (base * 2).min(30_000);
        }
        let delay = backoff.after_failure(Duration::from_secs(120)).as_millis();
        assert!((800..=1600).contains(&delay), "seed {seed}: quiet for two minutes starts again, got {delay} ms");
    }
}

#[test]
fn a_missing_server_is_tried_every_other_second() {
    let mut backoff = Backoff::new(3);
    for (step, (is_unreachable, base)) in
        [(true, 800), (true, 1_000), (true, 1_000), (true, 1_000), (false, 1_000), (false, 2_000), (true, 1_000)]
            .into_iter()
            .enumerate()
    {
        let short = Duration::from_millis(5);
        let delay = if is_unreachable { backoff.after_expected_failure(short) } else { backoff.after_failure(short) };
        let bounds = base..=2 * base;
        assert!(bounds.contains(&delay.as_millis()), "step {step}: {delay:?} is within {bounds:?} ms");
    }
}
