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
to-application = Back to { $application }

## The page of a sign-in

sign-in-title = Sign in to { $application }
sign-in-purpose = Show that you are a real person, without saying who you are. The application receives:
receives-identifier = an ID that is yours there, the same each time and used nowhere else
receives-level = how you were verified as a person
receives-nothing-else = The application does not receive your name, your email address or anything else about you.
receives-stand-ins = In place of a name and an email address it gets stand-ins that are not yours.
code-label = QR code for your authenticator app
use-this-device = Use the authenticator on this device
open-app = Open { $name }
open-app-here = Use { $name } on this device
use-another-device = Use another device
scan-with-camera = Scan this with the camera of your phone, not in the app.
scan-with-camera-or-app = Scan this with { $name } or with the camera of your phone.
scan-with-camera-or-authenticator = Scan this with your authenticator or with the camera of your phone.
code-hint = Scan this with your authenticator app. Do so only if you opened this page yourself.
status-waiting = Waiting for your authenticator.
status-opened = An authenticator has opened this request. Answer there.
status-refused = The proof was not accepted. Try again in your authenticator.
status-digits = Your authenticator has answered.
status-here = Your authenticator has answered. Go on where it opened the way back.
status-answered = Thank you. Going back to the application.
status-over = This sign-in is over.
status-done = This sign-in is done. You can close this page.
status-offline = There is no connection. This page goes on by itself once it is back.
status-ending = One minute is left.
here-hint = It opens the application in a tab or a window of its own. You can close this page.
over-hint = Get a new code, or go back to the application.
digits-label = Type the three digits that it shows
digits-wrong = It shows other digits. Look at your authenticator again.
good-until = This page is good until { $time }.
minutes-left = This page is good for another { $minutes } min.
more-time = More time
new-code = New code
another-person = Another person
have-code = I have a sign-in code
sign-in-code-question = Your sign-in code
sign-in-code-effect = The code finds your account at { $application }. You then give your proof, as always.
sign-in-code-label = The code, 16 letters and digits
sign-in-code-malformed = This is no sign-in code. One has 16 characters: letters from a to z, and digits from 2 to 7. Compare it with what you kept.
sign-in-code-unknown = This code finds no account at { $application }. Compare it with what you kept. It may be for another application, or you have made all others forget the account since.
use-passkey = Use a passkey
passkey-unused = No passkey was used. Perhaps you declined, there is none for this service here, or it took too long. You can try again.
passkey-unusable = This browser cannot use a passkey here.
passkey-unknown = This passkey leads to no account at { $application }. It may be for another application, or you have made all others forget the account since.
continue-when-answered = Continue once you have answered
get-app = I don’t have { $name }
get-authenticator = I don’t have an authenticator
another-way = Sign in another way
help = Help
authenticator-hint = Your authenticator is the app that can prove that you are a person.
cancel = Cancel

## The short page, and the page for another browser

short-warning = Go on only if you opened the page of this sign-in yourself, on the other screen.
short-host = Your answer goes to
short-browser = The sign-in began in
short-network = In the network
short-time = When
short-denied = This application takes an answer only from the device on which you sign in. Open its page on this device, or use an authenticator on the other one.
short-over = This sign-in is over. Get a new code on the page where you began.
short-done = This sign-in is done.
short-digits = Your authenticator has answered. Type the digits that it shows on the page where you began.
short-back = Back to the page of this sign-in
open-authenticator = Open your authenticator
use-own-wallet = Use another authenticator
use-other-wallet = Use a World ID app
close-page = You can close this page.
elsewhere-title = This sign-in began in another browser
elsewhere-began = It began { $minutes } min ago in { $browser }.
elsewhere-began-in-network = It began { $minutes } min ago in { $browser }, in the network { $network }.
elsewhere = Open it there to go on.
begin-again-here = Begin again here
browser-on-system = { $browser } on { $system }
browser-unknown = an unknown browser

## The page at the address for authenticators

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
connect-own = It belongs to a sign-in at this service. Answer only if you opened the page of the sign-in yourself.
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
problem-unanswered = You have not answered in your authenticator yet. Answer there, then try again.
problem-answered = Your authenticator has answered already, so there is nothing to cancel.
problem-elsewhere = Another site sent this request. Nothing was cancelled.
try-again = Try again
no-proof-title = Your authenticator gave no proof
no-proof-replayed = It has given this proof before, and gives it again only after a long time.
no-proof-replayed-advice = Use the browser in which you signed in before, or answer with another device or a new installation of your authenticator.
no-proof-account-advice = Use a browser that remembers you, or scan the code with the camera of a phone whose browser does. Otherwise answer with another device or a new installation of your authenticator.
no-proof-lost = An earlier sign-in in this browser asked for it and got no answer. If that was your first one, you probably have no account here yet.
no-proof-kind = It cannot make the kind of proof that this application asks for.
no-proof-kind-advice = Update it, or answer with another authenticator. Nothing was used up.
no-proof-credential = It has no credential that counts here.
no-proof-credential-advice = Get verified in the way that the application asks for, or answer with another authenticator.
no-proof-broken = Something broke in it, or in the service behind it.
no-proof-broken-advice = Update it, wait a moment, and begin again.
no-proof-unbound = Your authenticator gave a proof that no account can be made with.
no-proof-unbound-advice = It is too old for this. Update it. It may give the proof again only after a long time; another device or a new installation gives it at once.
unknown-code-title = This code is no longer valid
unknown-code = Its sign-in has ended or expired, or the address is not complete.
wait-title = Please wait a moment
wait = There were too many sign-ins or sign-outs from your network. Go back and try again in a while.
not-found-title = There is no page here
not-found = The address may be incomplete, or it may be from a sign-in that has ended.
failed-title = This did not work
failed-busy = The service is busy or is starting again. Load the page again in a moment.
failed-here = Something broke in this service. Go back and try again; if it stays so, tell the people who run it.
failed-request = The service cannot read what the browser sent. Go back and begin again.
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
sign-out-of = Sign out of { $application }
sign-out-everywhere = Sign out everywhere
remembers-accounts = This browser remembers accounts of yours: it asks for a proof of them. It lets nobody in without one.
forget-browser = Forget this browser
account-at = Your account at { $application }
make-code = Get a sign-in code
make-code-effect = A sign-in code, printed or written down, finds this account where no browser remembers it.
make-passkey = Make a passkey
make-passkey-effect = A passkey finds this account in every browser that has your passkeys.
passkey-title = A passkey for { $application }
passkey-purpose = It signs nobody in: it finds your account, and you still give your proof. Choose “Use a passkey” on the page of a sign-in.
passkey-keep = Your browser or your phone keeps it, in place of an earlier one for this account. It is good until you make all others forget the account; delete it then.
passkey-none = This browser has no passkeys, or runs no scripts here. A sign-in code does the same.
passkey-make = Make the passkey now
passkey-made = The passkey is made.
passkey-declined = No passkey was made. Perhaps you declined, or it took too long. You can try again.
passkey-cannot = This browser or device cannot keep this passkey. A sign-in code does the same.
make-link = Open on another device
make-link-effect = A link makes another device of yours remember this account.
link-purpose = Open this link on another device of yours, within five minutes. It then remembers your account at { $application }. The link is good once, and signs nobody in.
link-code-label = QR code of the link
link-scan = Scan this with the camera of the other device, or copy the address.
link-question = Remember the account in this browser?
link-effect = This link makes this browser remember an account at { $application }. At the next sign-in there you are asked for a proof of that account.
link-warning = Go on only if you asked for this link yourself a moment ago, and this is a device of your own. A link that somebody sent you leads to an account of theirs.
link-yes = Remember it here
link-done-title = This browser remembers the account
link-done = You are not signed in yet. Begin at { $application }: you are asked for your proof there.
link-used-title = This link is used up
link-used = A link is good once. If it was not you who used it, sign in again and make all others forget the account.
link-over-title = This link is no longer valid
link-over = A link is good for five minutes. Get a new one in the browser that is signed in. If it is younger, its address is not complete.
sign-in-code-title = Your sign-in code for { $application }
sign-in-code-purpose = It signs nobody in: it finds your account, and you still give your proof. Choose “I have a sign-in code” on the page of a sign-in.
sign-in-code-keep = Print this page or write the code down, and keep it like an address book. It is shown only now. It is good until you make all others forget the account.
forget-others = Make all others forget this account
forget-others-effect = If you have lost something that finds this account, make all others forget it: no other browser, sign-in code, passkey or link finds it then. Where you are signed in you stay so.
forget-others-later = Your proof is more than an hour old. To do so, sign out of the application here, sign in to it again, and come back.
others-forgotten = All other browsers, codes, passkeys and links have forgotten your account at { $application }.
remember-title = Remember this browser?
remember-why = If this is your own computer, you are asked for your own proof the next time that you sign in to { $application } here. On a computer of others, answer no.
remember-yes = This is my own computer
remember-no = No, not here
remember-otherwise = Where no browser remembers you, your authenticator may not be able to sign you in again for a year.
remember-forget = You can forget it again on the page that shows where you are signed in.
remember-elsewhere-why = If this is your own phone or computer, let this browser remember your account. Then your authenticator can sign you in to { $application } on every screen whose code you scan with it.
remember-elsewhere = Remember my account here
remembers-elsewhere = This browser remembers your account.
remember-only = This is my own computer, and all others are to forget me
found-title = You have been here before
found-why = Your account at { $application } was found. If you have lost a device, a browser or a sign-in code that knew it, make all others forget it.
found-only = Make all others forget it, and continue
older-link = I had an account here before
older-title = An account from before
older-why = If you have signed in to { $application } with this World ID before, your authenticator can show which account is yours.
older-warning = It may give this proof once and then not again for a year. If no account is found, you cannot sign in here with it until then.
older-warning-new = It may give this proof once and then not again for a year. If no account is found, you get a new one.
older-yes = Look for my account
one-more-proof = One more proof is needed. Answer again with your authenticator.
attach-title = Keep your account
attach-why = You are signed in to { $application } with a kind of proof that ends on { $day }. Give a proof of the new kind now, and you keep your account after that day.
attach-yes = Give the new proof
attach-code = Give the proof of the new kind with your authenticator. “Not now” signs you in without it.
attach-not-title = The new proof was not added
attach-not-given = Your authenticator gave no proof.
attach-without = You are signed in without it.
attach-no = Not now
attached-title = A new kind of proof signs you in
attached-why = On { $day } a proof of the new kind was added to your account at { $application }. Until { $until } both kinds sign you in, and after that the new one.
attached-mine = That was me
attached-dispute = If it was somebody else, give your own proof of the new kind. Then the old kind of proof signs you in, and neither of the two new ones does until the operator has decided.
attached-not-mine = That was not me
attached-elsewhere = If it was somebody else, sign in to { $application } again in this browser after a day, and before { $until }; this page then has a button for it. Or tell the operator.
no-proof-no-account = Your authenticator gave the proof, and it belongs to no account here.
no-proof-no-account-advice = People with an older credential get no new account here. If you had one, use the authenticator, or the World ID, that you had it with.
no-proof-other-account = The proof belongs to another account than the one that you signed in to.
no-proof-attached-before = Another proof was added to this account more than 30 days ago, and it stays.
no-proof-disputed = Two people have given their proofs for this account.
no-proof-operator-advice = Nothing was changed. Please tell the people who run this service.

## The way back, and the front page

return-title = Back to the application
return-hint = If nothing happens by itself, continue with the button.
front-title = Sign-in for people
front-purpose = Applications send you here to sign in: you show that you are a real person, without saying who you are.
front-begin = There is nothing to do on this page. Begin at the application that you want to use.
