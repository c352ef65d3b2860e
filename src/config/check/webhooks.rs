//! The rules about `[events]` and `[[webhooks]]`.

use super::{InvalidSetting, Seen, invalid_setting, is_plain_name, unknown_app};
use crate::config::whole::Config;

/// The most webhooks.
const MOST_WEBHOOKS: usize = 100;

pub(super) fn check_webhooks(config: &Config) -> Vec<InvalidSetting> {
    let mut found = Vec::new();
    if config.webhooks.len() > MOST_WEBHOOKS {
        let message = format!("has {} entries; give at most {MOST_WEBHOOKS}", config.webhooks.len());
        found.push(invalid_setting("webhooks", message));
    }
    let mut ids = Seen::new("webhooks");
    for (index, webhook) in config.webhooks.iter().enumerate() {
        let key = |name: &str| format!("webhooks[{index}].{name}");
        if !is_plain_name(&webhook.id) {
            let message = format!("{:?} is not a name: 1 to 64 of a to z, 0 to 9 and -", webhook.id);
            found.push(invalid_setting(key("id"), message));
        }
        if let Some(first) = ids.first_before(&webhook.id, index) {
            let message = format!("{:?} is the id of {first} already; ids are unique", webhook.id);
            found.push(invalid_setting(key("id"), message));
        }
        if webhook.url.is_plain_http_to_another_machine() && !webhook.allow_plain_http {
            let message = format!(
                "{} is plain HTTP to another machine, so that others on the way can read and change events; use https, or set \
                 allow_plain_http = true",
                webhook.url.uri()
            );
            found.push(invalid_setting(key("url"), message));
        }
        if webhook.events.is_empty() {
            found.push(invalid_setting(key("events"), "is empty; name the events that are posted"));
        }
        let mut kinds = Seen::new("events");
        for (position, kind) in webhook.events.iter().enumerate() {
            if kinds.first_before(*kind, position).is_some() {
                found.push(invalid_setting(key("events"), format!("has {:?} twice", kind.name())));
            }
        }
        let Some(app_id) = &webhook.app_id else { continue };
        if config.apps.iter().all(|app| app.id != *app_id) {
            found.push(invalid_setting(key("app_id"), unknown_app(app_id)));
        }
        for kind in webhook.events.iter().filter(|kind| !kind.is_for_applications()) {
            let message = format!(
                "{:?} is about no application; leave it out, or leave out app_id for a webhook of the operator",
                kind.name()
            );
            found.push(invalid_setting(key("events"), message));
        }
    }
    found
}
