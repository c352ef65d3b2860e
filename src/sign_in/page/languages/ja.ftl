# The pages that end users see at sign-in, in Japanese.

run-by = 運営者：{ $name }
contact = お問い合わせ
privacy = プライバシー
terms = 利用規約
continue = 続ける
begin-again = アプリケーションに戻って、最初からやり直してください。

sign-in-title = { $application } にサインイン
sign-in-purpose = 身元を明かさずに、実在する人であることを示します。アプリケーションが受け取るもの：
receives-identifier = 毎回同じで、ほかでは使われないあなたの ID
receives-level = 人であることがどのように確認されたか
receives-email = その ID から作られたメールアドレス（あなたのものではなく、メールは届きません）
receives-name = 全員に共通の名前「{ $name }」（あなたの名前ではありません）
receives-nothing-else = このサインインから、ほかにあなたの情報は渡りません。
use-this-device = この端末の認証アプリを使う
use-another-device = 別の端末を使う
code-label = 認証アプリ用の QR コード
code-hint = 認証アプリで読み取ってください。ご自身でこのページを開いた場合に限ります。
authenticator-hint = 認証アプリとは、あなたが人であることを証明できるアプリです。
status-waiting = 回答を待っています。
status-opened = 認証アプリがこの要求を開きました。アプリでの回答を待っています。
status-answered = ありがとうございます。アプリケーションに戻ります。
status-answered-same-device = ありがとうございます。認証アプリがアプリケーションへの戻り先を開きます。
status-over = このサインインは終了しました。アプリケーションに戻って、最初からやり直してください。
time-left = このページの有効時間：{ $time } 分
continue-when-answered = 回答したら続ける
cancel = キャンセル

address-title = 認証アプリで開いてください
address-purpose = このアドレスは、あなたが人であることを証明できるアプリ用です。この端末では、そのようなアプリが開きませんでした。
address-copy = アドレスをコピーして、この端末のアプリに貼り付けてください：
address-copy-or-scan = アドレスをコピーしてこの端末のアプリに貼り付けるか、別の端末のアプリでコードを読み取ってください：
copy = アドレスをコピー
copied = コピーしました
copy-failed = ブラウザーがコピーできませんでした。選択されたアドレスを手動でコピーしてください。

connect-title = 認証アプリで回答してください
connect-asks = { $application } が、あなたが人であることの証明を求めています。
connect-purpose = 記載された目的：「{ $purpose }」
connect-unchecked = この要求は元のページが作成したもので、ここでは確認されていません。ご自身でそのページを開いた場合に限り、回答してください。
connect-hidden = アプリケーションが、あなたが人であることの証明を求めています。詳しい内容は認証アプリに表示されます。
connect-elsewhere = 要求は { $host } に保管されています。これは本サービスのものではありません。
connect-gone = このコードの要求は、回答済みか、認証アプリが受け取ったか、期限が切れています。
connect-incomplete-title = アドレスが不完全です
connect-incomplete = アプリケーションからもう一度開くか、コードをもう一度読み取ってください。

cannot-begin-title = サインインを開始できません
cannot-begin = 移動元のアプリケーションに誤りがあります。アプリケーションには何も渡っていません。
cannot-continue-title = サインインを続行できません
problem-over = 期限が切れたか、すでに完了したか、別のブラウザーで開始されました。
problem-unanswered = 認証アプリでまだ回答していません。回答してから、もう一度お試しください。
problem-return = 認証アプリは、回答した端末でアプリケーションへの戻り先を開きます。
problem-answered = 認証アプリがすでに回答したため、キャンセルするものがありません。
problem-elsewhere = この要求は別のサイトから送られました。何もキャンセルされていません。
try-again = もう一度試す
no-proof-title = 認証アプリから証明が得られませんでした
no-proof-replayed = 認証アプリはこの証明をすでに提出しており、長い期間が過ぎるまで再び提出しません。
no-proof-replayed-advice = 以前サインインしたブラウザーを使うか、別の端末、または入れ直した認証アプリで回答してください。
no-proof-kind = このアプリケーションが求める種類の証明を作成できません。
no-proof-kind-advice = 認証アプリを更新するか、別の認証アプリで回答してください。何も消費されていません。
no-proof-credential = ここで有効な資格情報がありません。
no-proof-credential-advice = アプリケーションが求める方法で確認を受けるか、別の認証アプリで回答してください。
no-proof-broken = 認証アプリ、またはその背後のサービスで問題が起きました。
no-proof-broken-advice = 認証アプリを更新し、少し待ってから、最初からやり直してください。
unknown-code-title = このコードは無効になりました
unknown-code = サインインが終了したか期限が切れたか、アドレスが不完全です。
wait-title = しばらくお待ちください
wait = お使いのネットワークからのサインインまたはサインアウトが多すぎます。戻って、しばらくしてからお試しください。
details = アプリケーションの運営者向けの詳細
details-problem = 問題
details-parameter = パラメーター
details-code = コード

sign-out-title = サインアウトしますか？
sign-out-effect = このブラウザーでは、ここでサインインしたすべてのアプリケーションで、証明がもう一度必要になります。
sign-out = サインアウト
sign-out-elsewhere = 別のサイトからサインアウトのために移動しました。希望する場合だけ続けてください。
signed-out-title = サインアウトしました
signed-out = このブラウザーには、このサービスでのサインインが残っていません。アプリケーション独自のサインインがある場合は、そちらでもサインアウトしてください。
not-signed-out-title = サインアウトしていません
not-signed-out = 移動元のアプリケーションに誤りがあります。
sign-out-here = このページでサインアウト

sessions-title = このブラウザーのサインイン先
sessions-none = ありません。どのアプリケーションにも証明が必要です。
sessions-some = 次のアプリケーションは、確認なしでこのブラウザーから回答を受け取ります：
session-since = 証明した日時：{ $time }
sign-out-everywhere = すべてからサインアウト

return-title = アプリケーションに戻る
return-hint = 自動で移動しない場合は、ボタンで続けてください。
front-title = 人のためのサインイン
front-purpose = アプリケーションからここに移動してサインインします。身元を明かさずに、実在する人であることを示します。
front-begin = このページですることはありません。使いたいアプリケーションから始めてください。
