//! A key in a store that knows no revisions, only tokens.

use super::request::{Answer, Event, Header, KeyState, KeyValue, StoreRequest};

/// What stands for the store and its leader, which a token does not tell apart.
const STORE: u64 = 1;

/// Puts a [`Committer`](super::Committer) in front of a store with two operations: get the value with a token, and put
/// a value if the token is unchanged. A token is anything that differs for each write, also of the same value: the
/// version of a row, a resourceVersion.
///
/// It numbers the states of the key as its own program sees them. A write of this program is the next state. Any
/// other one comes after states that nobody has seen, so that nothing is known of what happened in between. So the
/// protocol holds as it is: what cannot be proven without a history is left to a repair pass, such as the release of a
/// value that was allocated before another program wrote.
///
/// Revisions, such as those of an [`Outcome::Allocated`](super::Outcome::Allocated) or a [`View`](super::View), mean
/// something only to the committer that they come from. A repair pass has its Services from
/// [elsewhere](super::ServiceList::Elsewhere), and writes no fence: a Service must be written before its `use_until`.
/// Nothing in the store says how long that is, so all programs must have the same [grace](super::Config::grace). End
/// them all to change it. An edit that needs the past or a list of Services is refused.
///
/// The loop of a shell, without the rest that [the module](super#the-loop-of-a-shell) shows:
///
/// ```
/// use rangekeeper::commit::{Event, StoreRequest, TokenRequest, Tokens};
///
/// /// A row of a database: a value and its version.
/// #[derive(Default)]
/// struct Row(Option<(u64, Vec<u8>)>);
///
/// /// Carries out a request, and returns what to report to the committer.
/// fn perform<'a>(row: &'a mut Row, tokens: &mut Tokens<u64>, request: &'a StoreRequest) -> Event<'a> {
///     match tokens.begin(request) {
///         TokenRequest::Put { value, token } if row.0.as_ref().map(|(version, _)| *version) == token => {
///             let version = token.unwrap_or(0) + 1;
///             row.0 = Some((version, value.to_vec()));
///             // Without an answer to the put or the get: `Event::Unknown`.
///             tokens.stored(version)
///         }
///         // Another program has written: what is there now?
///         TokenRequest::Put { .. } | TokenRequest::Get => {
///             tokens.got(request, row.0.as_ref().map(|(version, value)| (*version, value.as_slice())))
///         }
///         TokenRequest::None(event) => event,
///     }
/// }
///
/// let (mut row, mut tokens) = (Row::default(), Tokens::new());
/// assert!(matches!(perform(&mut row, &mut tokens, &StoreRequest::Read), Event::Answered { .. }));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tokens<T> {
    /// What was seen last: the state, and its token if there was a value.
    state: KeyState,
    token: Option<T>,
    /// The number of the last state.
    revision: u64,
}

/// What a request of a committer asks of a store with tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenRequest<'a, T> {
    /// Get the value, and report it by [`Tokens::got`].
    Get,
    /// Put this value if the token of the stored one is this; without a token if there is none. If it was put, report
    /// that by [`Tokens::stored`]; if it was not, as the token is another one, get the value.
    Put {
        /// What is put.
        value: &'a [u8],
        /// The token of what it replaces.
        token: Option<T>,
    },
    /// Nothing: report this.
    None(Event<'a>),
}

impl<T> Default for Tokens<T> {
    fn default() -> Self {
        Self { state: KeyState::default(), token: None, revision: 1 }
    }
}

impl<T: Clone + PartialEq> Tokens<T> {
    /// Nothing was seen yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// What to ask of the store for a committer's request. A watch, which the committer may ask for by
    /// [`Step::Watch`](super::Step::Watch), [fails](Event::WatchFailed).
    pub fn begin<'a>(&self, request: &'a StoreRequest) -> TokenRequest<'a, T> {
        match request {
            StoreRequest::Read | StoreRequest::Confirm { .. } => TokenRequest::Get,
            StoreRequest::ReadAt { .. } => TokenRequest::None(Event::Compacted),
            StoreRequest::Swap { services_unchanged_since: Some(_), .. } | StoreRequest::Swap { look: Some(_), .. } => {
                TokenRequest::None(Event::Refused("the store has no conditions on other keys"))
            }
            StoreRequest::Swap { guard, value, .. } if *guard == self.state => {
                TokenRequest::Put { value, token: self.token.clone() }
            }
            StoreRequest::Swap { .. } => TokenRequest::Get,
        }
    }

    /// The value was put, and has this token.
    pub fn stored(&mut self, token: T) -> Event<'static> {
        self.revision += 1;
        self.state = self.state.written(self.revision);
        self.token = Some(token);
        self.answered(Answer::Held)
    }

    /// This value was found, with its token; `None` if there was none.
    pub fn got<'a>(&mut self, request: &StoreRequest, found: Option<(T, &'a [u8])>) -> Event<'a> {
        let (token, value) = found.unzip();
        if token != self.token {
            // At least one more than is seen: what happened in between is unknown.
            self.revision += 2;
            self.state = match (&token, self.state.version) {
                (None, _) => KeyState::default(),
                (Some(_), 0) => KeyState::default().written(self.revision),
                (Some(_), version) => KeyState { version: version + 2, mod_revision: self.revision, ..self.state },
            };
            self.token = token;
        }
        match request {
            StoreRequest::Confirm { guard } if *guard == self.state => self.answered(Answer::Held),
            _ => self.answered(Answer::Current(value.map(|value| KeyValue { state: self.state, value }))),
        }
    }

    fn answered<'a>(&self, answer: Answer<'a>) -> Event<'a> {
        Event::Answered { header: Header { cluster_id: STORE, revision: self.revision, raft_term: STORE }, answer }
    }
}

#[cfg(test)]
mod tests {
    use super::super::request::Witness;
    use super::*;

    fn swap(guard: KeyState) -> StoreRequest {
        StoreRequest::Swap { guard, value: vec![1], witness: Witness::Keep, services_unchanged_since: None, look: None }
    }

    /// The state that an answer has; `None` if the guard held.
    fn state(event: Event<'_>) -> Option<KeyState> {
        match event {
            Event::Answered { answer: Answer::Current(key), .. } => {
                Some(key.map_or(KeyState::default(), |key| key.state))
            }
            Event::Answered { answer: Answer::Held, .. } => None,
            event => panic!("{event:?}"),
        }
    }

    #[test]
    fn only_the_own_write_is_the_next_state() {
        let mut tokens = Tokens::new();
        assert_eq!(tokens.begin(&swap(KeyState::default())), TokenRequest::Put { value: &[1], token: None });
        assert_eq!(state(tokens.stored("a")), None);
        let Some(own) = state(tokens.got(&StoreRequest::Read, Some(("a", &[1])))) else { panic!("{tokens:?}") };
        assert_eq!(own, KeyState::default().written(own.mod_revision));
        assert_eq!(tokens.begin(&swap(own)), TokenRequest::Put { value: &[1], token: Some("a") });
        assert_eq!(state(tokens.got(&StoreRequest::Confirm { guard: own }, Some(("a", &[1])))), None);
        let Some(other) = state(tokens.got(&StoreRequest::Confirm { guard: own }, Some(("b", &[1])))) else { panic!() };
        assert!(other.is_same_key(own) && other.version > own.version + 1 && other.mod_revision > own.mod_revision + 1);
        assert_eq!(tokens.begin(&swap(own)), TokenRequest::Get, "the guard does not hold");
    }

    #[test]
    fn a_value_that_is_there_again_is_of_another_key() {
        let mut tokens = Tokens::new();
        let Some(before) = state(tokens.got(&StoreRequest::Read, Some(("a", &[1])))) else { panic!("{tokens:?}") };
        assert_eq!(state(tokens.got(&StoreRequest::Read, None)), Some(KeyState::default()));
        assert_eq!(tokens.begin(&swap(KeyState::default())), TokenRequest::Put { value: &[1], token: None });
        let Some(again) = state(tokens.got(&StoreRequest::Read, Some(("a", &[1])))) else { panic!("{tokens:?}") };
        assert!(
            !again.is_same_key(before) && again.mod_revision > before.mod_revision && again.version == 1,
            "{again:?}"
        );
    }

    #[test]
    fn what_the_store_cannot_do_is_refused() {
        let mut tokens = Tokens::new();
        let Some(state) = state(tokens.got(&StoreRequest::Read, Some(("a", &[1])))) else { panic!("{tokens:?}") };
        assert_eq!(tokens.begin(&StoreRequest::ReadAt { revision: 1 }), TokenRequest::None(Event::Compacted));
        for (services_unchanged_since, look) in [(Some(7), None), (None, std::num::NonZeroU64::new(7))] {
            let swap = StoreRequest::Swap {
                guard: state,
                value: vec![],
                witness: Witness::Put,
                services_unchanged_since,
                look,
            };
            assert!(matches!(tokens.begin(&swap), TokenRequest::None(Event::Refused(_))), "{swap:?}");
        }
    }
}
