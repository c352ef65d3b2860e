# The pages that end users see at sign-in, in German.

run-by = Betrieben von { $name }
contact = Kontakt
privacy = Datenschutz
terms = Nutzungsbedingungen
continue = Weiter
begin-again = Gehen Sie zurück zur Anwendung, um neu zu beginnen.

sign-in-title = Anmelden bei { $application }
sign-in-purpose = Zeigen Sie, dass Sie ein echter Mensch sind, ohne zu sagen, wer Sie sind. Die Anwendung erhält:
receives-identifier = eine Kennung für Sie, die jedes Mal dieselbe ist und nirgends sonst gilt
receives-level = auf welche Weise Sie als Mensch bestätigt wurden
receives-email = eine E-Mail-Adresse aus dieser Kennung, nicht Ihre eigene; dort kommt keine Post an
receives-name = den Namen „{ $name }“, der für alle gleich ist, nicht Ihren eigenen
receives-nothing-else = Sonst erhält sie aus dieser Anmeldung nichts über Sie.
use-this-device = Authenticator auf diesem Gerät verwenden
use-another-device = Anderes Gerät verwenden
code-label = QR-Code für Ihre Authenticator-App
code-hint = Scannen Sie ihn mit Ihrer Authenticator-App, aber nur, wenn Sie diese Seite selbst geöffnet haben.
authenticator-hint = Ihr Authenticator ist die App, die beweisen kann, dass Sie ein Mensch sind.
status-waiting = Wartet auf Ihre Antwort.
status-opened = Ein Authenticator hat die Anfrage geöffnet. Wartet dort auf Ihre Antwort.
status-answered = Danke. Es geht zurück zur Anwendung.
status-answered-same-device = Danke. Ihr Authenticator öffnet den Weg zurück zur Anwendung.
status-over = Diese Anmeldung ist beendet. Gehen Sie zurück zur Anwendung, um neu zu beginnen.
time-left = Diese Seite gilt noch { $time } Minuten.
continue-when-answered = Weiter, wenn Sie geantwortet haben
cancel = Abbrechen

address-title = Öffnen Sie dies in Ihrem Authenticator
address-purpose = Diese Adresse ist für die App, die beweisen kann, dass Sie ein Mensch sind. Auf diesem Gerät hat keine solche App sie geöffnet.
address-copy = Kopieren Sie die Adresse in die App auf diesem Gerät:
address-copy-or-scan = Kopieren Sie die Adresse in die App auf diesem Gerät, oder scannen Sie den Code mit der App auf einem anderen Gerät:
copy = Adresse kopieren
copied = Kopiert
copy-failed = Der Browser hat sie nicht kopiert. Kopieren Sie die markierte Adresse von Hand.

connect-title = Antworten Sie in Ihrem Authenticator
connect-asks = { $application } bittet Sie zu beweisen, dass Sie ein Mensch sind.
connect-purpose = Angegebener Zweck: „{ $purpose }“
connect-unchecked = Die Seite, von der Sie kommen, hat diese Anfrage gestellt, und hier wird sie nicht geprüft. Antworten Sie nur, wenn Sie diese Seite selbst geöffnet haben.
connect-hidden = Eine Anwendung bittet Sie zu beweisen, dass Sie ein Mensch sind. Was genau sie verlangt, zeigt Ihr Authenticator.
connect-elsewhere = Die Anfrage liegt bei { $host }. Diese Adresse gehört nicht zu diesem Dienst.
connect-gone = Seine Anfrage wurde beantwortet, von einem Authenticator abgeholt, oder sie ist abgelaufen.
connect-incomplete-title = Diese Adresse ist unvollständig
connect-incomplete = Öffnen Sie sie noch einmal aus der Anwendung, oder scannen Sie ihren Code noch einmal.

cannot-begin-title = Diese Anmeldung kann nicht beginnen
cannot-begin = Die Anwendung, die Sie hierher geschickt hat, hat einen Fehler gemacht. Sie hat nichts erhalten.
cannot-continue-title = Diese Anmeldung kann nicht weitergehen
problem-over = Sie ist abgelaufen, wurde schon abgeschlossen oder in einem anderen Browser begonnen.
problem-unanswered = Sie haben in Ihrem Authenticator noch nicht geantwortet. Antworten Sie dort, und versuchen Sie es dann noch einmal.
problem-return = Ihr Authenticator öffnet den Weg zurück zur Anwendung auf dem Gerät, auf dem er geantwortet hat.
problem-answered = Ihr Authenticator hat schon geantwortet, es gibt nichts mehr abzubrechen.
problem-elsewhere = Eine andere Website hat diese Anfrage geschickt. Es wurde nichts abgebrochen.
try-again = Noch einmal versuchen
no-proof-title = Ihr Authenticator hat keinen Beweis geliefert
no-proof-replayed = Er hat diesen Beweis schon einmal geliefert und liefert ihn erst nach langer Zeit wieder.
no-proof-replayed-advice = Nehmen Sie den Browser, in dem Sie früher angemeldet waren, oder antworten Sie mit einem anderen Gerät oder einer neuen Installation Ihres Authenticators.
no-proof-kind = Er kann die Art von Beweis nicht erstellen, die diese Anwendung verlangt.
no-proof-kind-advice = Aktualisieren Sie ihn, oder antworten Sie mit einem anderen Authenticator. Es wurde nichts verbraucht.
no-proof-credential = Er hat keinen Nachweis, der hier zählt.
no-proof-credential-advice = Lassen Sie sich so verifizieren, wie die Anwendung es verlangt, oder antworten Sie mit einem anderen Authenticator.
no-proof-broken = In ihm oder im Dienst dahinter ist etwas schiefgegangen.
no-proof-broken-advice = Aktualisieren Sie ihn, warten Sie einen Moment, und beginnen Sie neu.
unknown-code-title = Dieser Code gilt nicht mehr
unknown-code = Seine Anmeldung ist beendet oder abgelaufen, oder die Adresse ist unvollständig.
wait-title = Bitte warten Sie einen Moment
wait = Aus Ihrem Netz gab es zu viele An- oder Abmeldungen. Gehen Sie zurück, und versuchen Sie es später noch einmal.
details = Einzelheiten für die Betreiber der Anwendung
details-problem = Was falsch ist
details-parameter = Parameter
details-code = Fehlercode

sign-out-title = Abmelden?
sign-out-effect = Dieser Browser braucht dann bei jeder Anwendung, bei der Sie sich hier angemeldet haben, einen neuen Beweis.
sign-out = Abmelden
sign-out-elsewhere = Eine andere Website hat Sie zum Abmelden hierher geschickt. Gehen Sie nur weiter, wenn Sie das wollen.
signed-out-title = Sie sind abgemeldet
signed-out = Dieser Browser ist über diesen Dienst nirgends mehr angemeldet. Eine Anwendung kann eine eigene Anmeldung haben; melden Sie sich auch dort ab.
not-signed-out-title = Sie sind nicht abgemeldet
not-signed-out = Die Anwendung, die Sie hierher geschickt hat, hat einen Fehler gemacht.
sign-out-here = Auf dieser Seite abmelden

sessions-title = Wo dieser Browser angemeldet ist
sessions-none = Nirgends. Jede Anwendung muss um einen Beweis bitten.
sessions-some = Diese Anwendungen bekommen von diesem Browser eine Antwort, ohne dass Sie gefragt werden:
session-since = Ihr Beweis ist vom { $time }
sign-out-everywhere = Überall abmelden

return-title = Zurück zur Anwendung
return-hint = Wenn nichts von selbst geschieht, gehen Sie mit der Schaltfläche weiter.
front-title = Anmeldung für Menschen
front-purpose = Anwendungen schicken Sie hierher, damit Sie sich anmelden: Sie zeigen, dass Sie ein echter Mensch sind, ohne zu sagen, wer Sie sind.
front-begin = Auf dieser Seite gibt es nichts zu tun. Beginnen Sie bei der Anwendung, die Sie benutzen möchten.
