//! What ties a proof to the browser that began the sign-in: the signed proof request, and the
//! return URL of an answer from the browser's own device.

use std::sync::Arc;

use selfsame_protocol::sign_in::proof_request::{AnswerMode, REQUEST_TYPE, RequestForms, SignInRequest, SignedRequest};
use selfsame_protocol::sign_in::records::{OpenedRequest, Transaction};
use selfsame_protocol::sign_in::response::{ErrorKind, SignInRejection};
use selfsame_storage::Decision;
use subtle::ConstantTimeEq;

use super::error::SignInError;
use super::handle::SignInHandle;
use super::ids::{TransactionId, hash_of};
use super::messages::SessionRegistryMessage;
use super::settings::SignInClient;
use super::signing_keys::{LoadedKeys, SigningError};
use super::state::{ReadRecord, write};

impl SignInHandle {
    /// Opens a transaction's proof request for an authenticator and returns it in its plain and its
    /// signed form. The first call records `request` with the time; later calls return the same
    /// request. Where a current proof is asked for, each call takes a challenge of the transaction,
    /// and the request has its nonce; from the last challenge on, and for a legacy proof, it is
    /// signed again only when the operator has revoked its key.
    pub async fn open_request(&self, id: TransactionId, request: SignInRequest) -> Result<RequestForms, SignInError> {
        let keys = self.state.signing_keys().await?;
        let mut made: Option<OpenedRequest> = None;
        loop {
            let ReadRecord { value, stored } = self.transaction(id)?;
            let answered = value.answer.is_some();
            let challenge = match answered {
                // It gives no more challenges out.
                true => value.open_challenges().next().unwrap_or_else(|| value.challenge(0)),
                false => value.next_challenge(self.client_of(&value)?.proof),
            };
            let known = value.opened.as_ref();
            if let Some(OpenedRequest { request, signed }) = known
                && request.nonce == challenge.nonce
                && keys.include_signer_of(signed)
            {
                return Ok(RequestForms { plain: request.clone(), answered, signed: signed.clone() });
            }
            let request = known.map_or(&request, |known| &known.request);
            let request = SignInRequest { nonce: challenge.nonce, ..request.clone() };
            let opened = match made.take() {
                Some(opened) if opened.request == request => opened,
                _ => {
                    let signed = self.sign_request(Arc::clone(&keys), request.clone()).await?;
                    OpenedRequest { request, signed }
                }
            };
            let forms = RequestForms { plain: opened.request.clone(), answered, signed: opened.signed.clone() };
            let is_first = value.opened_at.is_none();
            let given = value.with_given(challenge, self.state.clock.unix_seconds());
            let changed = Transaction { opened: Some(opened.clone()), ..given };
            let written = self.state.write(vec![write(id.key(), Some(&stored), &changed, stored.expires_at)]).await?;
            if written == Decision::Written {
                if is_first {
                    self.state.session_registry.cast(SessionRegistryMessage::Changed(id));
                }
                return Ok(forms);
            }
            made = Some(opened);
        }
    }

    async fn sign_request(&self, keys: Arc<LoadedKeys>, request: SignInRequest) -> Result<String, SignInError> {
        let claims = SignedRequest { iss: self.provider().issuer.clone(), request };
        let signed = self.state.blocking.run(move || keys.sign_as(REQUEST_TYPE, &claims)).await;
        Ok(signed.map_err(|error| SigningError::Sign(error.to_string()))??)
    }
}

/// Checks that the application lets a person answer this way.
pub(super) fn check_mode(client: &SignInClient, mode: AnswerMode) -> Result<(), SignInRejection> {
    if mode == AnswerMode::SameDevice || client.allows_cross_device {
        return Ok(());
    }
    let detail = "this application takes proofs only from the device where the browser is; open the page's link there";
    Err(SignInRejection::of("mode", ErrorKind::CrossDeviceDenied, detail))
}

/// Checks the secret of the return URL, where the answer came from the browser's own device. Only
/// that device has got the URL, so a sign-in that a browser elsewhere began cannot be completed.
pub(super) fn check_return(transaction: &Transaction, given: Option<&str>) -> Result<(), SignInRejection> {
    let Some(expected) = &transaction.return_hash else { return Ok(()) };
    if bool::from(hash_of(given.unwrap_or_default()).as_slice().ct_eq(expected.as_slice())) {
        return Ok(());
    }
    let detail = "the proof came from the device where the sign-in was opened; it goes on there, at the address that \
                  the authenticator opened";
    Err(SignInRejection::of("return", ErrorKind::InvalidRequest, detail))
}
