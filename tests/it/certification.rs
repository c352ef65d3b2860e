//! The local certification check: what the OpenID certification profiles require, with a test for
//! each row.
//!
//! The profiles Basic, Implicit, Hybrid and Form Post require nearly the same rows, each for its
//! own response types. The rows are written once, in `rows.rs`, for any [`Flow`]. Here each profile
//! lists its rows, by the names of the modules in the OpenID Foundation's suite (`oidcc-max-age-1`
//! is `max_age_1`).
//!
//! | file | contents |
//! |---|---|
//! | `browser.rs` | a browser, its user and the application that it visits, which checks every response |
//! | `rows.rs` | the rows of the profiles |
//! | `config.rs` | the profile Config: discovery, keys, https |
//! | `errors.rs` | the error codes of sign-in, each at its endpoint with status, body and headers |
//! | `redirect_uris.rs` | only the registered spelling of a redirect URI gets a redirect |

pub mod browser;
mod config;
mod errors;
mod redirect_uris;
mod rows;

use selfsame::config::Config;

use crate::sign_in_client::{SignInTestClient, accept_current_proofs, add_other_app};
use browser::Flow;

/// A provider with two applications whose users sign in with the simulator's proofs.
async fn provider() -> SignInTestClient {
    SignInTestClient::start_with_keys(two_applications).await
}

fn two_applications(config: &mut Config) {
    accept_current_proofs(config);
    add_other_app(config);
}

const BASIC: [Flow; 1] = [Flow::by_redirect("code")];
const IMPLICIT: [Flow; 2] = [Flow::by_redirect("id_token"), Flow::by_redirect("id_token token")];
const HYBRID: [Flow; 3] =
    [Flow::by_redirect("code id_token"), Flow::by_redirect("code token"), Flow::by_redirect("code id_token token")];
const FORM_POST: [Flow; 6] = [
    Flow::by_form("code"),
    Flow::by_form("id_token"),
    Flow::by_form("id_token token"),
    Flow::by_form("code id_token"),
    Flow::by_form("code token"),
    Flow::by_form("code id_token token"),
];

/// Makes a test for each row. The test runs the row with every flow of the profile, with one
/// provider.
macro_rules! profile {
    ($profile:ident, $flows:ident, $($row:ident)*) => {
        mod $profile {
            use super::{$flows, provider, rows};
            $(
                #[tokio::test]
                async fn $row() {
                    let client = provider().await;
                    for flow in $flows {
                        rows::$row(&client, flow).await;
                    }
                    client.stop().await;
                }
            )*
        }
    };
}

profile! {
    basic, BASIC,
    server state_is_echoed response_type_missing id_token_signature userinfo_get userinfo_post_header userinfo_post_body
    request_without_nonce scope_profile scope_email scope_address scope_phone scope_all other_scope_order
    display_page display_popup display_touch display_wap prompt_login prompt_consent prompt_select_account
    prompt_none_not_logged_in prompt_none_logged_in max_age_0 max_age_1 max_age_10000 unknown_parameter
    id_token_hint id_token_hint_of_somebody_else login_hint ui_locales claims_locales acr_values
    code_reuse code_reuse_30_seconds codes_have_128_bits registered_redirect_uri redirect_uri_missing post_request
    client_secret_post request_uri_refused_by_name request_refused_by_name request_with_a_redirect_uri claims_essential
    refresh_token valid_pkce the_person_refuses
}

profile! {
    implicit, IMPLICIT,
    server state_is_echoed response_type_missing id_token_signature userinfo_get userinfo_post_header userinfo_post_body
    request_without_nonce scope_profile scope_email scope_address scope_phone scope_all other_scope_order
    display_page display_popup display_touch display_wap prompt_login prompt_consent prompt_select_account
    prompt_none_not_logged_in prompt_none_logged_in max_age_0 max_age_1 max_age_10000 unknown_parameter
    id_token_hint id_token_hint_of_somebody_else login_hint ui_locales claims_locales acr_values
    registered_redirect_uri redirect_uri_missing post_request response_mode_query
    request_uri_refused_by_name request_refused_by_name request_with_a_redirect_uri claims_essential the_person_refuses
}

profile! {
    hybrid, HYBRID,
    server state_is_echoed response_type_missing id_token_signature userinfo_get userinfo_post_header userinfo_post_body
    request_without_nonce scope_profile scope_email scope_address scope_phone scope_all other_scope_order
    display_page display_popup display_touch display_wap prompt_login prompt_consent prompt_select_account
    prompt_none_not_logged_in prompt_none_logged_in max_age_0 max_age_1 max_age_10000 unknown_parameter
    id_token_hint id_token_hint_of_somebody_else login_hint ui_locales claims_locales acr_values
    code_reuse code_reuse_30_seconds codes_have_128_bits registered_redirect_uri redirect_uri_missing post_request
    response_mode_query client_secret_post request_uri_refused_by_name request_refused_by_name
    request_with_a_redirect_uri claims_essential refresh_token valid_pkce the_person_refuses
}

profile! {
    form_post, FORM_POST,
    server state_is_echoed response_type_missing id_token_signature userinfo_get userinfo_post_header userinfo_post_body
    request_without_nonce scope_profile scope_email scope_address scope_phone scope_all other_scope_order
    display_page display_popup display_touch display_wap prompt_login prompt_consent prompt_select_account
    prompt_none_not_logged_in prompt_none_logged_in max_age_0 max_age_1 max_age_10000 unknown_parameter
    id_token_hint id_token_hint_of_somebody_else login_hint ui_locales claims_locales acr_values
    code_reuse code_reuse_30_seconds codes_have_128_bits registered_redirect_uri redirect_uri_missing post_request
    client_secret_post request_uri_refused_by_name request_refused_by_name request_with_a_redirect_uri claims_essential
    refresh_token valid_pkce the_person_refuses
}
