// Shows the OpenAPI description that the page names. It calls no server: there is no "Try it out".

const main = document.getElementById("description");
SwaggerUIBundle({
  domNode: main,
  url: main.dataset.description,
  deepLinking: true,
  docExpansion: "list",
  supportedSubmitMethods: [],
  validatorUrl: null,
});
