# The pages that end users see at sign-in, in English.
#
# Every language has the same messages with the same variables; a test checks it. Messages are plain
# text: the pages escape them, so markup in them is shown as it stands.

## Every page

run-by = Run by { $name }
contact = Contact
privacy = Privacy
terms = Terms
continue = Continue
begin-again = Go back to the application to begin again.

## The page of a sign-in

sign-in-title = Sign in to { $application }
sign-in-purpose = Show that you are a real person, without saying who you are. The application receives:
receives-identifier = an ID that is yours there, the same each time and used nowhere else
receives-level = how you were verified as a person
receives-email = an email address made of that ID, not your own; no mail arrives there
receives-name = the name “{ $name }”, the same for everyone, not your own
receives-nothing-else = From this sign-in it receives nothing else about you.
use-this-device = Use the authenticator on this device
use-another-device = Use another device
code-label = QR code for your authenticator app
code-hint = Scan this with your authenticator app. Do so only if you opened this page yourself.
authenticator-hint = Your authenticator is the app that can prove that you are a person.
status-waiting = Waiting for your answer.
status-opened = An authenticator has opened this request. Waiting for your answer there.
status-answered = Thank you. Going back to the application.
status-answered-same-device = Thank you. Your authenticator opens the way back to the application.
status-over = This sign-in is over. Go back to the application to begin again.
time-left = This page is good for { $time } minutes.
continue-when-answered = Continue once you have answered
cancel = Cancel

## The page at the address for authenticators

address-title = Open this in your authenticator
address-purpose = This address is for the app that can prove that you are a person. No such app opened it on this device.
address-copy = Copy the address into the app on this device:
address-copy-or-scan = Copy the address into the app on this device, or scan its code with the app on another device:
copy = Copy the address
copied = Copied
copy-failed = The browser did not copy it. Copy the marked address by hand.

## The page of a connector URI

connect-title = Answer in your authenticator
connect-asks = { $application } asks you to prove that you are a person.
connect-purpose = It says what for: “{ $purpose }”
connect-unchecked = The page that you come from made this request, and it is not checked here. Answer only if you opened that page yourself.
connect-hidden = An application asks you to prove that you are a person. Your authenticator shows what exactly it asks.
connect-elsewhere = The request is kept by { $host }, which does not belong to this service.
connect-gone = Its request was answered, was taken by an authenticator, or has expired.
connect-incomplete-title = This address is not complete
connect-incomplete = Open it again from the application, or scan its code again.

## Problems

cannot-begin-title = This sign-in cannot begin
cannot-begin = The application that sent you here made a mistake. Nothing was shared with it.
cannot-continue-title = This sign-in cannot continue
problem-over = It has expired, was finished before, or was begun in another browser.
problem-unanswered = You have not answered in your authenticator yet. Answer there, then try again.
problem-return = Your authenticator opens the way back to the application on the device where it answered.
problem-answered = Your authenticator has answered already, so there is nothing to cancel.
problem-elsewhere = Another site sent this request. Nothing was cancelled.
try-again = Try again
no-proof-title = Your authenticator gave no proof
no-proof-replayed = It has given this proof before, and gives it again only after a long time.
no-proof-replayed-advice = Use the browser in which you signed in before, or answer with another device or a new installation of your authenticator.
no-proof-kind = It cannot make the kind of proof that this application asks for.
no-proof-kind-advice = Update it, or answer with another authenticator. Nothing was used up.
no-proof-credential = It has no credential that counts here.
no-proof-credential-advice = Get verified in the way that the application asks for, or answer with another authenticator.
no-proof-broken = Something broke in it, or in the service behind it.
no-proof-broken-advice = Update it, wait a moment, and begin again.
unknown-code-title = This code is no longer valid
unknown-code = Its sign-in has ended or expired, or the address is not complete.
wait-title = Please wait a moment
wait = There were too many sign-ins or sign-outs from your network. Go back and try again in a while.
details = Details for the people who run the application
details-problem = What is wrong
details-parameter = Parameter
details-code = Code

## Signing out

sign-out-title = Sign out?
sign-out-effect = This browser then has to prove again at every application that you signed in to here.
sign-out = Sign out
sign-out-elsewhere = Another site sent you here to sign out. Continue only if you want that.
signed-out-title = You are signed out
signed-out = This browser is signed in nowhere through this service. An application may have a sign-in of its own; sign out there too.
not-signed-out-title = You are not signed out
not-signed-out = The application that sent you here made a mistake.
sign-out-here = Sign out on this page

## Where the browser is signed in

sessions-title = Where this browser is signed in
sessions-none = Nowhere. Every application has to ask for a proof.
sessions-some = These applications get an answer from this browser without asking you:
session-since = You gave a proof on { $time }
sign-out-everywhere = Sign out everywhere

## The way back, and the front page

return-title = Back to the application
return-hint = If nothing happens by itself, continue with the button.
front-title = Sign-in for people
front-purpose = Applications send you here to sign in: you show that you are a real person, without saying who you are.
front-begin = There is nothing to do on this page. Begin at the application that you want to use.
