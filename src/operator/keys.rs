//! `GET /keys`: the keys that ID tokens are signed with; `POST /keys/rotate`: the next one signs.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use hyper::StatusCode;
use selfsame_actors::KeyState;
use selfsame_protocol::json::from_object;
use serde::{Deserialize, Serialize};

use super::Operator;
use super::error::OperatorError;
use crate::http::{Request, Response, json};

const BODY_LIMIT: usize = 4096;

/// A signing key. Nothing of it is secret here.
#[derive(Debug, Serialize)]
struct Key {
    kid: String,
    /// `retired` (published until its last token has expired), `current`, `next`.
    state: &'static str,
    /// Since when clients can know it.
    published_at: String,
}

impl From<KeyState> for Key {
    fn from(key: KeyState) -> Self {
        let published_at = UNIX_EPOCH + Duration::from_secs(key.published_at);
        Self {
            kid: key.id,
            state: key.state,
            published_at: humantime::format_rfc3339_seconds(published_at).to_string(),
        }
    }
}

/// How to rotate.
#[derive(Debug, Default, Deserialize)]
struct Rotate {
    /// Also if clients may not know the next key yet.
    #[serde(default)]
    now: bool,
}

/// The signing keys, oldest first.
pub async fn list(operator: Arc<Operator>, _: Request) -> Result<Response, OperatorError> {
    let keys: Vec<Key> = operator.service.sign_in().signing_keys().await?.into_iter().map(Key::from).collect();
    Ok(json(StatusCode::OK, &keys))
}

/// Lets the next key sign and publishes another one behind it.
pub async fn rotate(operator: Arc<Operator>, mut request: Request) -> Result<Response, OperatorError> {
    operator.authorize(&request)?;
    let body = request.read_json(BODY_LIMIT).await?;
    let Rotate { now } = from_object(&body)?;
    let sign_in = operator.service.sign_in();
    sign_in.rotate_keys(now).await?.map_err(|error| OperatorError::Field(error.to_string()))?;
    tracing::info!("the signing key was changed by the operator");
    let keys: Vec<Key> = sign_in.signing_keys().await?.into_iter().map(Key::from).collect();
    Ok(json(StatusCode::OK, &keys))
}
