# The pages that end users see at sign-in, in French.

run-by = Géré par { $name }
contact = Contact
privacy = Confidentialité
terms = Conditions d’utilisation
continue = Continuer
begin-again = Retournez à l’application pour recommencer.

sign-in-title = Se connecter à { $application }
sign-in-purpose = Montrez que vous êtes une vraie personne, sans dire qui vous êtes. L’application reçoit :
receives-identifier = un identifiant pour vous, toujours le même et utilisé nulle part ailleurs
receives-level = la manière dont il a été vérifié que vous êtes une personne
receives-email = une adresse électronique faite de cet identifiant, pas la vôtre ; aucun courrier n’y arrive
receives-name = le nom « { $name } », le même pour tous, pas le vôtre
receives-nothing-else = De cette connexion, elle ne reçoit rien d’autre sur vous.
use-this-device = Utiliser l’authentificateur de cet appareil
use-another-device = Utiliser un autre appareil
code-label = Code QR pour votre application d’authentification
code-hint = Scannez-le avec votre application d’authentification, et seulement si vous avez ouvert cette page vous-même.
authenticator-hint = Votre authentificateur est l’application qui peut prouver que vous êtes une personne.
status-waiting = En attente de votre réponse.
status-opened = Un authentificateur a ouvert cette demande. En attente de votre réponse.
status-answered = Merci. Retour à l’application.
status-answered-same-device = Merci. Votre authentificateur ouvre le chemin du retour vers l’application.
status-over = Cette connexion est terminée. Retournez à l’application pour recommencer.
time-left = Cette page est valable { $time } minutes.
continue-when-answered = Continuer quand vous avez répondu
cancel = Annuler

address-title = Ouvrez ceci dans votre authentificateur
address-purpose = Cette adresse est pour l’application qui peut prouver que vous êtes une personne. Aucune ne l’a ouverte sur cet appareil.
address-copy = Copiez l’adresse dans l’application sur cet appareil :
address-copy-or-scan = Copiez l’adresse dans l’application sur cet appareil, ou scannez son code avec l’application sur un autre appareil :
copy = Copier l’adresse
copied = Copiée
copy-failed = Le navigateur ne l’a pas copiée. Copiez à la main l’adresse sélectionnée.

connect-title = Répondez dans votre authentificateur
connect-asks = { $application } vous demande de prouver que vous êtes une personne.
connect-purpose = Motif indiqué : « { $purpose } »
connect-unchecked = C’est la page d’où vous venez qui a fait cette demande, et elle n’est pas vérifiée ici. Ne répondez que si vous avez ouvert cette page vous-même.
connect-hidden = Une application vous demande de prouver que vous êtes une personne. Votre authentificateur montre ce qu’elle demande exactement.
connect-elsewhere = La demande est conservée par { $host }, qui n’appartient pas à ce service.
connect-gone = Sa demande a reçu une réponse, a été prise par un authentificateur ou a expiré.
connect-incomplete-title = Cette adresse est incomplète
connect-incomplete = Ouvrez-la de nouveau depuis l’application, ou scannez de nouveau son code.

cannot-begin-title = Cette connexion ne peut pas commencer
cannot-begin = L’application qui vous a envoyé ici a fait une erreur. Elle n’a rien reçu.
cannot-continue-title = Cette connexion ne peut pas continuer
problem-over = Elle a expiré, est déjà terminée ou a été commencée dans un autre navigateur.
problem-unanswered = Vous n’avez pas encore répondu dans votre authentificateur. Répondez-y, puis réessayez.
problem-return = Votre authentificateur ouvre le chemin du retour vers l’application sur l’appareil où il a répondu.
problem-answered = Votre authentificateur a déjà répondu, il n’y a rien à annuler.
problem-elsewhere = Un autre site a envoyé cette demande. Rien n’a été annulé.
try-again = Réessayer
no-proof-title = Votre authentificateur n’a pas donné de preuve
no-proof-replayed = Il a déjà donné cette preuve et ne la redonne qu’après une longue période.
no-proof-replayed-advice = Utilisez le navigateur avec lequel vous vous êtes connecté auparavant, ou répondez avec un autre appareil ou une nouvelle installation de votre authentificateur.
no-proof-kind = Il ne peut pas créer le type de preuve que cette application demande.
no-proof-kind-advice = Mettez-le à jour, ou répondez avec un autre authentificateur. Rien n’a été consommé.
no-proof-credential = Il n’a aucun justificatif qui compte ici.
no-proof-credential-advice = Faites-vous vérifier de la façon que l’application demande, ou répondez avec un autre authentificateur.
no-proof-broken = Une panne s’est produite dans celui-ci ou dans le service sur lequel il s’appuie.
no-proof-broken-advice = Mettez-le à jour, attendez un instant, puis recommencez.
unknown-code-title = Ce code n’est plus valable
unknown-code = Sa connexion est terminée ou a expiré, ou l’adresse est incomplète.
wait-title = Veuillez patienter un instant
wait = Il y a eu trop de connexions ou de déconnexions depuis votre réseau. Revenez en arrière et réessayez plus tard.
details = Détails pour les responsables de l’application
details-problem = Ce qui ne va pas
details-parameter = Paramètre
details-code = Code d’erreur

sign-out-title = Se déconnecter ?
sign-out-effect = Ce navigateur devra ensuite donner une nouvelle preuve à chaque application où vous vous êtes connecté ici.
sign-out = Se déconnecter
sign-out-elsewhere = Un autre site vous a envoyé ici pour vous déconnecter. Continuez seulement si vous le voulez.
signed-out-title = Vous êtes déconnecté
signed-out = Ce navigateur n’est plus connecté nulle part par ce service. Une application peut avoir sa propre connexion ; déconnectez-vous là aussi.
not-signed-out-title = Vous n’êtes pas déconnecté
not-signed-out = L’application qui vous a envoyé ici a fait une erreur.
sign-out-here = Se déconnecter sur cette page

sessions-title = Où ce navigateur est connecté
sessions-none = Nulle part. Chaque application doit demander une preuve.
sessions-some = Ces applications obtiennent une réponse de ce navigateur sans vous le demander :
session-since = Vous avez donné une preuve le { $time }
sign-out-everywhere = Se déconnecter partout

return-title = Retour à l’application
return-hint = Si rien ne se passe, continuez avec le bouton.
front-title = Connexion pour les personnes
front-purpose = Des applications vous envoient ici pour vous connecter : vous montrez que vous êtes une vraie personne, sans dire qui vous êtes.
front-begin = Il n’y a rien à faire sur cette page. Commencez dans l’application que vous voulez utiliser.
