# The pages that end users see at sign-in, in Spanish.

run-by = Gestionado por { $name }
contact = Contacto
privacy = Privacidad
terms = Condiciones de uso
continue = Continuar
begin-again = Vuelva a la aplicación para empezar de nuevo.

sign-in-title = Iniciar sesión en { $application }
sign-in-purpose = Demuestre que es una persona real, sin decir quién es. La aplicación recibe:
receives-identifier = un identificador suyo, siempre el mismo y que no se usa en ningún otro sitio
receives-level = cómo se verificó que es una persona
receives-email = una dirección de correo hecha con ese identificador, no la suya; allí no llega correo
receives-name = el nombre «{ $name }», igual para todos, no el suyo
receives-nothing-else = De este inicio de sesión no recibe nada más sobre usted.
use-this-device = Usar el autenticador de este dispositivo
use-another-device = Usar otro dispositivo
code-label = Código QR para su aplicación de autenticación
code-hint = Escanéelo con su aplicación de autenticación, y solo si usted mismo abrió esta página.
authenticator-hint = Su autenticador es la aplicación que puede demostrar que usted es una persona.
status-waiting = Esperando su respuesta.
status-opened = Un autenticador abrió esta solicitud. Esperando su respuesta allí.
status-answered = Gracias. Volviendo a la aplicación.
status-answered-same-device = Gracias. Su autenticador abre el camino de vuelta a la aplicación.
status-over = Este inicio de sesión ha terminado. Vuelva a la aplicación para empezar de nuevo.
time-left = Esta página vale durante { $time } minutos.
continue-when-answered = Continuar cuando haya respondido
cancel = Cancelar

address-title = Abra esto en su autenticador
address-purpose = Esta dirección es para la aplicación que puede demostrar que usted es una persona. Ninguna la abrió en este dispositivo.
address-copy = Copie la dirección en la aplicación de este dispositivo:
address-copy-or-scan = Copie la dirección en la aplicación de este dispositivo, o escanee su código con la aplicación en otro dispositivo:
copy = Copiar la dirección
copied = Copiada
copy-failed = El navegador no la copió. Copie a mano la dirección marcada.

connect-title = Responda en su autenticador
connect-asks = { $application } le pide que demuestre que es una persona.
connect-purpose = Indica para qué: «{ $purpose }»
connect-unchecked = Esta solicitud la hizo la página de la que usted viene, y aquí no se comprueba. Responda solo si usted mismo abrió esa página.
connect-hidden = Una aplicación le pide que demuestre que es una persona. Su autenticador muestra qué pide exactamente.
connect-elsewhere = La solicitud está en { $host }, que no pertenece a este servicio.
connect-gone = Su solicitud ya se respondió, la recogió un autenticador o caducó.
connect-incomplete-title = Esta dirección está incompleta
connect-incomplete = Ábrala de nuevo desde la aplicación o vuelva a escanear su código.

cannot-begin-title = Este inicio de sesión no puede empezar
cannot-begin = La aplicación que le envió aquí cometió un error. No recibió nada.
cannot-continue-title = Este inicio de sesión no puede continuar
problem-over = Ha caducado, ya terminó o se empezó en otro navegador.
problem-unanswered = Todavía no ha respondido en su autenticador. Responda allí e inténtelo de nuevo.
problem-return = Su autenticador abre el camino de vuelta a la aplicación en el dispositivo en el que respondió.
problem-answered = Su autenticador ya respondió, así que no hay nada que cancelar.
problem-elsewhere = Otro sitio envió esta solicitud. No se canceló nada.
try-again = Intentar de nuevo
no-proof-title = Su autenticador no dio ninguna prueba
no-proof-replayed = Ya dio esta prueba antes, y no vuelve a darla hasta después de mucho tiempo.
no-proof-replayed-advice = Use el navegador en el que inició sesión antes, o responda con otro dispositivo o con una nueva instalación de su autenticador.
no-proof-kind = No puede crear el tipo de prueba que pide esta aplicación.
no-proof-kind-advice = Actualícelo, o responda con otro autenticador. No se gastó nada.
no-proof-credential = No tiene ninguna credencial que valga aquí.
no-proof-credential-advice = Verifíquese de la forma que pide la aplicación, o responda con otro autenticador.
no-proof-broken = Algo falló en él, o en el servicio que está detrás.
no-proof-broken-advice = Actualícelo, espere un momento y empiece de nuevo.
unknown-code-title = Este código ya no es válido
unknown-code = Su inicio de sesión terminó o caducó, o la dirección está incompleta.
wait-title = Espere un momento
wait = Hubo demasiados inicios o cierres de sesión desde su red. Vuelva atrás e inténtelo más tarde.
details = Detalles para quienes gestionan la aplicación
details-problem = Qué está mal
details-parameter = Parámetro
details-code = Código

sign-out-title = ¿Cerrar la sesión?
sign-out-effect = Después, este navegador necesita una nueva prueba en cada aplicación en la que inició sesión aquí.
sign-out = Cerrar la sesión
sign-out-elsewhere = Otro sitio le envió aquí para cerrar la sesión. Continúe solo si lo desea.
signed-out-title = La sesión está cerrada
signed-out = Este navegador no tiene ninguna sesión a través de este servicio. Una aplicación puede tener la suya; ciérrela también allí.
not-signed-out-title = La sesión no está cerrada
not-signed-out = La aplicación que le envió aquí cometió un error.
sign-out-here = Cerrar la sesión en esta página

sessions-title = Dónde tiene sesión este navegador
sessions-none = En ningún sitio. Cada aplicación debe pedir una prueba.
sessions-some = Estas aplicaciones obtienen una respuesta de este navegador sin preguntarle:
session-since = Dio una prueba el { $time }
sign-out-everywhere = Cerrar todas las sesiones

return-title = De vuelta a la aplicación
return-hint = Si no ocurre nada, continúe con el botón.
front-title = Inicio de sesión para personas
front-purpose = Las aplicaciones le envían aquí para iniciar sesión: demuestra que es una persona real, sin decir quién es.
front-begin = En esta página no hay nada que hacer. Empiece en la aplicación que quiera usar.
