//! Responses to the server's requests for input, given on the command line.

use serde_json::value::RawValue;

use crate::raw::{self, Members};

const ELICITATION: &str = "elicitation/create";
const SAMPLING: &str = "sampling/createMessage";

/// Results by key of an input request, or by method.
#[derive(Default)]
pub(crate) struct Answers(Vec<(String, Box<RawValue>)>);

impl Answers {
    /// Adds `KEY=JSON`.
    pub(crate) fn add(&mut self, text: &str) -> Result<(), String> {
        let (key, json) = text.split_once('=').ok_or_else(|| format!("--answer is KEY=JSON, not {text:?}"))?;
        if self.get(key).is_some() {
            return Err(format!("--answer came twice for {key}"));
        }
        let answer = raw::object(json).map_err(|wrong| format!("--answer {key}: the JSON {wrong}"))?;
        self.0.push((key.into(), answer));
        Ok(())
    }

    fn get(&self, key: &str) -> Option<&RawValue> {
        self.0.iter().find(|(own, _)| own == key).map(|(_, answer)| &**answer)
    }

    /// Whether there is a response for sampling: one for its method, or one with exactly the members of a sampling
    /// result.
    pub(crate) fn offer_sampling(&self) -> bool {
        self.0
            .iter()
            .any(|(key, answer)| key == SAMPLING || key != ELICITATION && Members::of(answer).get("model").is_some())
    }

    /// Whether to declare elicitation by URL: servers offer other tools to a client that can show URLs.
    pub(crate) fn offer_urls(&self) -> bool {
        self.0
            .iter()
            .any(|(key, answer)| key == ELICITATION || key != SAMPLING && Members::of(answer).get("action").is_some())
    }

    /// The response to a request; `None` for a sampling request without one on the command line.
    pub(crate) fn to(&self, key: Option<&str>, method: &str) -> Option<Box<RawValue>> {
        let given = key.and_then(|key| self.get(key)).or_else(|| self.get(method));
        let decline = || (method == ELICITATION).then(|| raw::of(&serde_json::json!({"action": "decline"})));
        given.map(ToOwned::to_owned).or_else(decline)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(texts: &[&str]) -> Answers {
        let mut answers = Answers::default();
        texts.iter().for_each(|text| answers.add(text).expect("an answer"));
        answers
    }

    #[test]
    fn urls_are_offered_with_an_answer_to_an_elicitation_alone() {
        for yes in [r#"elicitation/create={"action":"accept"}"#, "elicitation/create={}", r#"key={"action":"decline"}"#]
        {
            assert!(answers(&[yes]).offer_urls(), "{yes}");
        }
        for no in [r#"sampling/createMessage={"action":"accept"}"#, r#"key={"model":"m"}"#, "key={}"] {
            assert!(!answers(&[no]).offer_urls(), "{no}");
        }
        assert!(!answers(&[]).offer_urls());
        assert!(answers(&["key={}", r#"other={"action":"cancel"}"#]).offer_urls());
    }

    #[test]
    fn sampling_is_offered_with_an_answer_to_it_alone() {
        assert!(answers(&["sampling/createMessage={}"]).offer_sampling());
        assert!(answers(&[r#"key={"model":"m"}"#]).offer_sampling());
        assert!(!answers(&[r#"elicitation/create={"model":"m"}"#, "key={}"]).offer_sampling());
    }
}
