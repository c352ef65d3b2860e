# The pages that end users see at sign-in, in Portuguese.

run-by = Mantido por { $name }
contact = Contato
privacy = Privacidade
terms = Termos de uso
continue = Continuar
begin-again = Volte ao aplicativo para começar de novo.

sign-in-title = Entrar em { $application }
sign-in-purpose = Mostre que você é uma pessoa real, sem dizer quem é. O aplicativo recebe:
receives-identifier = um identificador seu, sempre o mesmo e usado em nenhum outro lugar
receives-level = como foi verificado que você é uma pessoa
receives-email = um endereço de e-mail feito desse identificador, não o seu; nenhuma mensagem chega lá
receives-name = o nome “{ $name }”, igual para todos, não o seu
receives-nothing-else = Deste acesso ele não recebe mais nada sobre você.
use-this-device = Usar o autenticador deste dispositivo
use-another-device = Usar outro dispositivo
code-label = Código QR para seu aplicativo autenticador
code-hint = Leia-o com seu aplicativo autenticador, e só se você mesmo abriu esta página.
authenticator-hint = Seu autenticador é o aplicativo que pode provar que você é uma pessoa.
status-waiting = Aguardando sua resposta.
status-opened = Um autenticador abriu este pedido. Aguardando sua resposta nele.
status-answered = Obrigado. Voltando ao aplicativo.
status-answered-same-device = Obrigado. Seu autenticador abre o caminho de volta ao aplicativo.
status-over = Este acesso terminou. Volte ao aplicativo para começar de novo.
time-left = Esta página vale por { $time } minutos.
continue-when-answered = Continuar depois de responder
cancel = Cancelar

address-title = Abra isto no seu autenticador
address-purpose = Este endereço é para o aplicativo que pode provar que você é uma pessoa. Nenhum o abriu neste dispositivo.
address-copy = Copie o endereço para o aplicativo neste dispositivo:
address-copy-or-scan = Copie o endereço para o aplicativo neste dispositivo, ou leia o código com o aplicativo em outro dispositivo:
copy = Copiar o endereço
copied = Copiado
copy-failed = O navegador não o copiou. Copie à mão o endereço selecionado.

connect-title = Responda no seu autenticador
connect-asks = { $application } pede que você prove que é uma pessoa.
connect-purpose = Motivo informado: “{ $purpose }”
connect-unchecked = Este pedido foi feito pela página de onde você veio e não é verificado aqui. Responda só se você mesmo abriu essa página.
connect-hidden = Um aplicativo pede que você prove que é uma pessoa. Seu autenticador mostra exatamente o que ele pede.
connect-elsewhere = O pedido está em { $host }, que não pertence a este serviço.
connect-gone = O pedido dele já foi respondido, foi recebido por um autenticador ou expirou.
connect-incomplete-title = Este endereço está incompleto
connect-incomplete = Abra-o de novo a partir do aplicativo ou leia o código de novo.

cannot-begin-title = Este acesso não pode começar
cannot-begin = O aplicativo que enviou você para cá cometeu um erro. Ele não recebeu nada.
cannot-continue-title = Este acesso não pode continuar
problem-over = Ele expirou, já terminou ou foi começado em outro navegador.
problem-unanswered = Você ainda não respondeu no seu autenticador. Responda nele e tente de novo.
problem-return = Seu autenticador abre o caminho de volta ao aplicativo no dispositivo em que respondeu.
problem-answered = Seu autenticador já respondeu, por isso não há nada a cancelar.
problem-elsewhere = Outro site enviou este pedido. Nada foi cancelado.
try-again = Tentar de novo
no-proof-title = Seu autenticador não deu nenhuma prova
no-proof-replayed = Ele já deu esta prova antes e só volta a dá-la depois de muito tempo.
no-proof-replayed-advice = Use o navegador em que você entrou antes, ou responda com outro dispositivo ou com uma nova instalação do seu autenticador.
no-proof-kind = Ele não consegue criar o tipo de prova que este aplicativo pede.
no-proof-kind-advice = Atualize-o, ou responda com outro autenticador. Nada foi gasto.
no-proof-credential = Ele não tem nenhuma credencial que valha aqui.
no-proof-credential-advice = Faça a verificação da forma que o aplicativo pede, ou responda com outro autenticador.
no-proof-broken = Algo falhou nele, ou no serviço por trás dele.
no-proof-broken-advice = Atualize-o, espere um momento e comece de novo.
unknown-code-title = Este código não vale mais
unknown-code = O acesso dele terminou ou expirou, ou o endereço está incompleto.
wait-title = Aguarde um momento
wait = Houve entradas ou saídas demais a partir da sua rede. Volte e tente de novo mais tarde.
details = Detalhes para quem mantém o aplicativo
details-problem = O que está errado
details-parameter = Parâmetro
details-code = Código

sign-out-title = Sair?
sign-out-effect = Depois, este navegador precisa de uma nova prova em cada aplicativo em que você entrou por aqui.
sign-out = Sair
sign-out-elsewhere = Outro site enviou você para cá para sair. Continue só se você quiser.
signed-out-title = Você saiu
signed-out = Este navegador não tem mais nenhum acesso por este serviço. Um aplicativo pode ter um acesso próprio; saia também dele.
not-signed-out-title = Você não saiu
not-signed-out = O aplicativo que enviou você para cá cometeu um erro.
sign-out-here = Sair nesta página

sessions-title = Onde este navegador está conectado
sessions-none = Em nenhum lugar. Cada aplicativo precisa pedir uma prova.
sessions-some = Estes aplicativos recebem uma resposta deste navegador sem perguntar a você:
session-since = Você deu uma prova em { $time }
sign-out-everywhere = Sair de todos

return-title = De volta ao aplicativo
return-hint = Se nada acontecer, continue com o botão.
front-title = Acesso para pessoas
front-purpose = Aplicativos enviam você para cá para entrar: você mostra que é uma pessoa real, sem dizer quem é.
front-begin = Não há nada a fazer nesta página. Comece no aplicativo que você quer usar.
