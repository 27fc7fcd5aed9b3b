//! Bearer tokens: whose they are, by TokenReview, remembered for ten seconds by a keyed hash.
//!
//! As in apiserver `authentication/token/cache` with the life times of `server/options/authentication.go`: yes and no are
//! kept, errors are not, and a token that is broken or has expired comes as an error. What that costs an API server is
//! bounded by [`super::bucket`]. The token itself is held for as long as its review is under way.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use tokio::time::Instant;

use super::backend::{Backend, Unanswered};
use super::bucket::Buckets;
use super::counts::{Counts, Review};
use super::flights::{Flights, Had};
use super::identity::Identity;
use super::review::{TokenAnswer, token_answer, token_review};
use super::secret::Secret;

/// How long it is remembered whose a token is, or that it is nobody's.
const KEEP: Duration = Duration::from_secs(10);

/// Tokens that are remembered; upstream counts on 5,000 nodes with as many namespaces again.
const MOST: usize = 32 * 1024;

/// What is known of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// Whose it is.
    Known(Arc<Identity>),
    /// It is nobody's, not for us, broken or expired.
    Unknown {
        /// Whether that may be remembered.
        is_certain: bool,
    },
    /// Nobody says.
    Unanswered(Unanswered),
    /// It was not looked at, because too many from this address were wrong.
    Limited,
}

/// Reviews tokens.
#[derive(Debug)]
pub struct Tokens {
    backend: Arc<Backend>,
    counts: Arc<Counts>,
    secret: Arc<Secret>,
    owners: Arc<Flights<Owner>>,
    failures: Buckets,
    /// For whom a token has to be made out.
    audiences: Vec<String>,
    /// Whether tokens for the API server itself will do as well.
    accept_api_audience: bool,
}

impl Tokens {
    /// Accepts tokens for any of `audiences`, and those for the API server if that is wanted.
    pub fn new(
        backend: Arc<Backend>,
        counts: Arc<Counts>,
        secret: Arc<Secret>,
        audiences: Vec<String>,
        accept_api_audience: bool,
    ) -> Tokens {
        let keep = |owner: &Owner| match owner {
            Owner::Known(_) | Owner::Unknown { is_certain: true } => Some(KEEP),
            Owner::Unknown { is_certain: false } | Owner::Unanswered(_) | Owner::Limited => None,
        };
        let owners = Flights::new(MOST, keep);
        Tokens { backend, counts, secret, owners, failures: Buckets::default(), audiences, accept_api_audience }
    }

    /// Whose a token is that came from an address.
    pub async fn owner(&self, token: &str, address: Option<IpAddr>) -> Owner {
        let key = self.secret.key([token.as_bytes()]);
        if let Some(owner) = self.owners.kept(&key) {
            self.counts.looked_up(Review::Token, Had::Kept);
            return owner;
        }
        if address.is_some_and(|address| !self.failures.take(address, Instant::now())) {
            return Owner::Limited;
        }
        let (owner, had) = self.owners.get(key, || self.ask(token)).await;
        self.counts.looked_up(Review::Token, had);
        if let (Some(address), false) = (address, matches!(owner, Owner::Unknown { .. })) {
            self.failures.give_back(address, Instant::now());
        }
        owner
    }

    /// Asks for all audiences at once, then for the API server's own, which cannot be named without knowing it.
    fn ask(&self, token: &str) -> impl Future<Output = Owner> + Send + use<> {
        let (backend, audiences, token) = (self.backend.clone(), self.audiences.clone(), token.to_owned());
        let accept_api_audience = self.accept_api_audience;
        async move {
            let mut owner = Owner::Unknown { is_certain: true };
            let asked_for =
                [Some(&*audiences).filter(|audiences| !audiences.is_empty()), accept_api_audience.then_some(&[][..])];
            for audiences in asked_for.into_iter().flatten() {
                owner = match backend.review(Review::Token, &token_review(&token, audiences)).await {
                    Err(unanswered) => return Owner::Unanswered(unanswered),
                    Ok(review) => match token_answer(&review, audiences) {
                        TokenAnswer::Known(identity) => return Owner::Known(Arc::new(identity.authenticated())),
                        TokenAnswer::Unknown => owner,
                        // The API server's words may quote the token's claims, which are nobody's business in a log.
                        TokenAnswer::Faulty(_) => Owner::Unknown { is_certain: false },
                    },
                };
            }
            owner
        }
    }
}

/// The bearer token of a request (apiserver `authentication/request/bearertoken`): the second word of the first
/// Authorization header.
pub fn bearer(headers: &HeaderMap) -> Option<&str> {
    let text = headers.get(AUTHORIZATION)?.to_str().ok()?.trim();
    let mut words = text.split(' ');
    let (scheme, token) = (words.next()?, words.next()?);
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}
